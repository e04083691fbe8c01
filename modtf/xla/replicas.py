"""Replicas of `tf.distribute`, which share every batch of a training step.

Seen in TensorFlow 2.21.
"""

from typing import Any

import keras


def replica_context() -> Any:
    """TensorFlow's context of the replica that runs here; None where there are no others."""
    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context if context is not None and context.num_replicas_in_sync > 1 else None
