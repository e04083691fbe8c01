"""Keys of the noise that routers draw in training."""

import numpy as np

from modtf.models.initial import InitialWeights
from modtf.randomness import random_key


def noise_keys(initial: InitialWeights) -> np.ndarray:
    """Two 31-bit numbers for every member [P, 2], from (task, seed): the same in any company."""
    keys = [random_key(task, seed, "router noise") % (1 << 62) for task, seed in initial.members]
    return np.array([[key & 0x7FFFFFFF, key >> 31] for key in keys], np.int32)
