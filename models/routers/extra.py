"""What a router's `call` gets besides rule and scores, and where its noise comes from."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from modtf.models.initial import InitialWeights
from modtf.randomness import random_key


class ExtraInput(keras.layers.Layer):
    """Asks a function for (rule, training): Keras tells layers inside a model whether it is trained."""

    def __init__(self, function: Callable[[Any, bool], Any], dtype: Any = None):
        super().__init__(name="extra_input", dtype=dtype)
        self.function = function
        self.built = True

    def call(self, rule, training=None):
        """From one-hot rules [P, R, T]."""
        return self.function(rule, bool(training))


def noise_keys(initial: InitialWeights) -> np.ndarray:
    """Two 31-bit numbers for every member [P, 2], from (task, seed): the same in any company."""
    keys = [random_key(task, seed, "router noise") % (1 << 62) for task, seed in initial.members]
    return np.array([[key & 0x7FFFFFFF, key >> 31] for key in keys], np.int32)
