"""Where the batches of an evaluation come from."""

import atexit
import contextlib
import math
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import tensorflow as tf

LARGEST_KEPT = 1 << 21  # bytes of a batch; making a larger one costs more than starting an iterator

#: of every source its iterators that wait at their beginning, by how many elements each reads; here alone
_waiting: "weakref.WeakKeyDictionary[Source, dict[int, Any]]" = weakref.WeakKeyDictionary()
atexit.register(_waiting.clear)  # TensorFlow waits for their threads, in vain once Python ends


class Source:
    """Datasets whose first batches are read at every evaluation, one after the other, through one pipeline.

    Starting an iterator costs as much as a small evaluation, since TensorFlow prepares the functions of a
    pipeline anew for each. So an iterator that has been read to its end is kept and begins again.

    Args:
        first: from a number of steps to a dataset of the first so many elements of each of them, in turn; of
            batches, or of what they are made of.
        make: (features, {output: what its metric needs}) of an element, in a compiled program, if the dataset
            does not give that itself.
        program: sources with the same one share what is compiled: where they differ, the elements say so.
        count: how many datasets.
    """

    def __init__(
        self,
        first: Callable[[int], tf.data.Dataset],
        make: Callable[[Any], Any] | None = None,
        program: Hashable = None,
        count: int = 1,
    ):
        self._first, self.make, self.program, self.count = first, make, program, count
        _waiting[self] = {}

    @contextlib.contextmanager
    def first(self, steps: int) -> Iterator[Any]:
        """An iterator of which exactly `count * steps` elements must be read: `steps` of each dataset."""
        iterator = _waiting[self].pop(steps, None)
        if iterator is None:
            # There is nothing to rewrite in it, and looking for it costs a third of starting an iterator;
            # what tunes an iterator is a thread of its own, also while the iterator waits
            quick = tf.data.Options()
            quick.experimental_optimization.apply_default_optimizations = False
            quick.autotune.enabled = False
            dataset = self._first(steps).with_options(quick)
            iterator = iter(dataset.repeat() if _is_small(dataset) else dataset)
        yield iterator
        if _is_small(iterator):  # only now: one that was left in the middle is not at the beginning
            _waiting[self][steps] = iterator


def _is_small(elements: Any) -> bool:
    specs = tf.nest.flatten(elements.element_spec)
    return sum(math.prod(spec.shape) * spec.dtype.size for spec in specs) <= LARGEST_KEPT
