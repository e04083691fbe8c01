"""What is kept of the tokens: sums per group and label, second moments, the tokens themselves while few."""

import numpy as np

from modtf.metrics.distributions import Array
from modtf.metrics.tokens.checks import Ints

BY = ("mass", "hard")
KEPT = 2**22  # gates kept in float32 (16 MiB): as long as they fit, labels are permuted exactly
MOST_BYTES = 2**31


class Sums:
    """Sums over tokens, of both the gate mass and the hard assignment.

    Attributes:
        groups: `[2, layers, groups, R, M]`, activations added up; the first axis is that of BY.
        counts: `[groups, R]`, the number of tokens.
        moments: `[2, layers, M, M]`, products of the activations of a token, added up.
        mass, labels: the tokens seen so far, `[layers, tokens, M]` and `[tokens]` in pieces; None once they
            are too many.
    """

    def __init__(self, num_layers: int, num_modules: int, num_groups: int, documents: bool):
        self.size, self.documents = (num_layers, num_modules), documents
        self.groups = np.zeros((2, num_layers, num_groups, 0, num_modules))
        self.counts = np.zeros((num_groups, 0), np.int64)
        self.moments = np.zeros((2, num_layers, num_modules, num_modules))
        self.mass: list[np.ndarray] | None = []
        self.labels: list[Ints] = []

    def check_chunk(self, num_layers: int, num_modules: int, documents: bool) -> None:
        """Raises `ValueError` unless a chunk is of the size of those before."""
        if (num_layers, num_modules) != self.size:
            raise ValueError(
                f"The chunk has {num_layers} layer(s) and {num_modules} modules; those before had "
                f"{self.size[0]} and {self.size[1]}."
            )
        if documents != self.documents:
            raise ValueError("Some chunks came with documents and some without; give them for all or none.")

    def make_room(self, num_labels: int) -> None:
        """Adds rows for labels below `num_labels` that were not seen before."""
        missing = num_labels - self.counts.shape[1]
        if missing <= 0:
            return
        num_bytes = 16 * self.size[0] * len(self.counts) * num_labels * self.size[1]
        if num_bytes > MOST_BYTES:
            raise ValueError(
                f"{num_labels} labels x {self.size[1]} modules x {self.size[0]} layer(s) x "
                f"{len(self.counts)} groups would need {num_bytes / 2**30:.1f} GiB. Map labels to fewer "
                "classes, or hand in some layers at a time."
            )
        self.groups = np.pad(self.groups, ((0, 0),) * 3 + ((0, missing), (0, 0)))
        self.counts = np.pad(self.counts, ((0, 0), (0, missing)))

    def add_labels(self, group: Ints, labels: Ints) -> Ints:
        """Counts some tokens, `[tokens]` each, of labels there is room for; returns the cell of each."""
        num_labels = self.counts.shape[1]
        cell: Ints = group * num_labels + labels
        self.counts += np.bincount(cell, minlength=self.counts.size).reshape(self.counts.shape)
        if self.mass is not None and self.counts.sum() * self.size[0] * self.size[1] > KEPT:
            self.mass, self.labels = None, []
        if self.mass is not None:
            self.mass.append(np.empty((self.size[0], len(labels), self.size[1]), np.float32))
            self.labels.append(labels)
        return cell

    def add_layer(self, layer: int, mass: Array, hard: Array, cell: Ints) -> None:
        """Adds what one layer did, `[tokens, M]`, with the tokens that `add_labels` counted last."""
        for by, tokens in enumerate((mass, hard)):
            self.groups[by, layer] += sum_rows(tokens, cell, self.counts.size).reshape(self.groups.shape[2:])
            self.moments[by, layer] += tokens.T @ tokens
        if self.mass is not None:
            self.mass[-1][layer] = mass


def sum_rows(rows: Array, cell: Ints, num_cells: int) -> Array:
    """The rows `[T, M]` added up by their cells `[T]`: `[num_cells, M]`."""
    from scipy.sparse import csc_array  # slow to import

    num_rows = len(rows)
    # One entry a column: the product walks over the rows once, and nothing needs to be sorted.
    one = csc_array((np.ones(num_rows), cell, np.arange(num_rows + 1)), shape=(num_cells, num_rows))
    return np.asarray(one @ rows)
