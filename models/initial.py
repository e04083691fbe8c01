"""Initial weights. Every number is a function of (task, seed, name of the weight)."""

import contextlib
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from modtf.base.memory import check_fits
from modtf.tasks.population import Population
from modtf.tasks.task import Task, random_key

EXAMPLES = 2


class InitialWeights:
    """A source of initial weights for the members of a population.

    A member starts from the same weights whatever other members there are. Variants of one cell share the
    initial values of the weights that they have in common, so they are compared on equal terms.
    """

    def __init__(self, population: Population):
        self.members = population.members

    def uniform(self, name: str, shape: Sequence[int], fan_in: int) -> np.ndarray:
        """Return U(-1/sqrt(fan_in), 1/sqrt(fan_in)) numbers, float32 [P, *shape]."""
        bound = 1.0 / math.sqrt(fan_in)
        size = 4 * len(self.members) * math.prod(shape)
        check_fits(f"The weight {name!r} of shape {tuple(shape)}", {"it alone": size}, "Choose fewer rules.")
        out = np.empty([len(self.members), *shape], np.float32)
        for i, (task, seed) in enumerate(self.members):
            key = random_key(task, seed, "weights", name) % (1 << 64)
            generator = np.random.Generator(np.random.Philox(key=key))
            out[i] = generator.random(shape, np.float32) * (2 * bound) - bound
        return out


@contextlib.contextmanager
def reproducible(task: Task, seed: int) -> Iterator[None]:
    """Make the initialisers of Keras layers a function of (task, seed). Keras's initialisers draw from
    Python's and NumPy's global generators. On exit the generators have their previous state."""
    before = random.getstate(), np.random.get_state()
    key = random_key(task, seed, "own model") % (1 << 64)
    random.seed(key)
    np.random.seed(key % (1 << 32))
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])


def blank_examples(task: Task) -> dict[str, Any]:
    """Return features of some examples, all 0, from which a model can make its weights."""
    shapes = task.example_shapes()
    return {
        "inputs": np.zeros([EXAMPLES, *shapes["inputs"]], task.input_dtype),
        "rule": np.zeros([EXAMPLES, *shapes["rule"]], np.int32),
    }


def noise_keys(initial: InitialWeights, name: str = "router") -> np.ndarray:
    """Return two 31-bit numbers per member [P, 2], from (task, seed), independent of the other members."""
    keys = [random_key(task, seed, f"{name} noise") % (1 << 62) for task, seed in initial.members]
    return np.array([[key & 0x7FFFFFFF, key >> 31] for key in keys], np.int32)
