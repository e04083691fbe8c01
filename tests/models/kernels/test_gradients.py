"""TensorFlow keeps no reference to custom gradients after training."""

import gc
import weakref

import pytest

import modtf
from modtf.models.kernels import gradients
from modtf.tasks.protocol import Evaluation

TINY = Evaluation(batches=1, batch_size=4, tokens=40, activation_batch_size=4, draws=1, tokens_per_draw=40)


@pytest.mark.parametrize("arch", ["mlp", *(pytest.param(a, marks=pytest.mark.slow) for a in ("mha", "rnn"))])
def test_a_trained_model_can_be_forgotten(arch):
    task = modtf.Task(arch, num_rules=2)
    model = modtf.build(task, "modular", 8)
    before = set(gradients._registered())
    modtf.train(
        model, task, 1, batch_size=4, evaluations=1, evaluation=TINY, verbose=False, jit_compile=False
    )
    assert set(gradients._registered()) == before
    weights = [weakref.ref(variable) for variable in model.trainable_variables]
    del model
    gc.collect()
    assert not any(variable() is not None for variable in weights)


def test_gradients_outside_training_stay():
    """A user's own traced step may still be differentiated."""
    import tensorflow as tf

    task = modtf.Task(num_rules=2)
    model = modtf.build(task, "modular", 8)
    features, _ = next(iter(modtf.stream(task, 4)))
    forward = tf.function(lambda: tf.reduce_sum(model(features)["target"]))
    forward()
    modtf.evaluate(model, task, evaluation=TINY)
    with tf.GradientTape() as tape:
        loss = forward()
    assert tape.gradient(loss, model.trainable_variables[0]) is not None
