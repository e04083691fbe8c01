"""Where the batches of an evaluation come from."""

import atexit
import contextlib
import math
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import tensorflow as tf

LARGEST_KEPT = 1 << 21  # bytes of a batch; making a larger one costs more than starting an iterator

_sources: "weakref.WeakSet[Source]" = weakref.WeakSet()


@atexit.register
def _close() -> None:
    """Ends all iterators while that is safe: TensorFlow waits for their threads, in vain once Python ends."""
    for source in list(_sources):
        source.close()


class Source:
    """An endless dataset whose first batches are read at every evaluation.

    Starting an iterator costs as much as a small evaluation, since TensorFlow prepares the functions of a
    pipeline anew for each. So an iterator that has been read to its end is kept and begins again.

    Args:
        dataset: endless; of batches, or of what they are made of.
        make: (features, {output: what its metric needs}) of an element, in a compiled program, if the dataset
            does not give that itself.
        program: sources with the same one share what is compiled: where they differ, the elements say so.
    """

    def __init__(
        self, dataset: tf.data.Dataset, make: Callable[[Any], Any] | None = None, program: Hashable = None
    ):
        # There is nothing to rewrite in it, and looking for it costs a third of starting an iterator; what
        # tunes an iterator is a thread of its own, also while the iterator waits
        quick = tf.data.Options()
        quick.experimental_optimization.apply_default_optimizations = False
        quick.autotune.enabled = False
        self.dataset, self.make, self.program = dataset.with_options(quick), make, program
        self._iterators: dict[int, Any] = {}  # by how many elements each reads before it begins again
        _sources.add(self)
        specs = tf.nest.flatten(dataset.element_spec)
        self._is_small = sum(math.prod(spec.shape) * spec.dtype.size for spec in specs) <= LARGEST_KEPT

    @contextlib.contextmanager
    def first(self, steps: int) -> Iterator[Any]:
        """An iterator at the dataset's beginning, of which exactly `steps` elements must be read."""
        iterator = self._iterators.pop(steps, None)
        if iterator is None:
            iterator = iter(self.dataset.take(steps).repeat() if self._is_small else self.dataset.take(steps))
        yield iterator
        if self._is_small:  # only now: one that was left in the middle is not at the beginning
            self._iterators[steps] = iterator

    def close(self) -> None:
        """Ends the iterators that are kept."""
        self._iterators.clear()
