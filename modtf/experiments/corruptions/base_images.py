"""The base images of the corruptions: their number and their size. It needs no TensorFlow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dataset:
    """A set of base images."""

    title: str
    classes: int
    side: int  # pixels
    sizes: tuple[int, int, int | None]  # train, validation, test images of a class; None: predefined test set
    num_test: int
    rate: float  # the published learning rate; for digits, EMNIST's
    coloured: bool = False


DATASETS = {
    "digits": Dataset("digits", 10, 28, (400, 50, 50), 500, 0.01),
    "emnist": Dataset("EMNIST", 47, 28, (2_000, 400, None), 18_800, 0.01),
    "cifar10": Dataset("CIFAR-10", 10, 32, (4_000, 1_000, None), 10_000, 0.1, coloured=True),
}
