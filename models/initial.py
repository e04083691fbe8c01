"""Initial weights: every number from (task, seed, name of the weight)."""

import math
from collections.abc import Sequence

import numpy as np

from modtf.population import Population
from modtf.randomness import random_key


class InitialWeights:
    """Draws the initial weights of the members of a population.

    A member starts from the same weights whatever its company; and variants of one cell share the
    initial values of the weights they have in common, so that they are compared on equal terms.

    Args:
        population: the members.
    """

    def __init__(self, population: Population):
        self.members = population.members

    def uniform(self, name: str, shape: Sequence[int], fan_in: int) -> np.ndarray:
        """U(-1/sqrt(fan_in), 1/sqrt(fan_in)) numbers, float32 [P, *shape]."""
        bound = 1.0 / math.sqrt(fan_in)
        out = np.empty([len(self.members), *shape], np.float32)
        for i, (task, seed) in enumerate(self.members):
            key = random_key(task, seed, "weights", name) % (1 << 64)
            generator = np.random.Generator(np.random.Philox(key=key))
            out[i] = generator.random(shape, np.float32) * (2 * bound) - bound
        return out
