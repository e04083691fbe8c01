"""Where the batches of an evaluation come from."""

import atexit
import contextlib
import math
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import tensorflow as tf

LARGEST_KEPT = 1 << 21  # bytes of a batch; making a larger one costs more than starting an iterator

#: of every source its iterators, by (elements of a share, shares), and the share that each waits at
_waiting: "weakref.WeakKeyDictionary[Source, dict[tuple[int, int], tuple[int, Any]]]"
_waiting = weakref.WeakKeyDictionary()
atexit.register(_waiting.clear)  # TensorFlow waits for their threads, in vain once Python ends


class Source:
    """Datasets of which evaluations read shares of some batches, one after the other, through one pipeline.

    Starting an iterator costs as much as a small evaluation, since TensorFlow prepares the functions of a
    pipeline anew for each. So an iterator is kept: it goes on with the next share, in the end with the first.

    Args:
        shares: from steps, and the numbers of the first share and of the one behind the last, to a dataset:
            of each share the steps of each of the datasets, in turn; of batches, or of what they are made of.
        make: (features, {output: what its metric needs}) of an element, in a compiled program, if the dataset
            does not give that itself.
        program: sources with the same one share what is compiled: where they differ, the elements say so.
        count: how many datasets.
    """

    def __init__(
        self,
        shares: Callable[[int, int, int], tf.data.Dataset],
        make: Callable[[Any], Any] | None = None,
        program: Hashable = None,
        count: int = 1,
    ):
        self._shares, self.make, self.program, self.count = shares, make, program, count
        _waiting[self] = {}

    @contextlib.contextmanager
    def share(self, steps: int, number: int = 0, of: int = 1) -> Iterator[Any]:
        """An iterator of which exactly `count * steps` elements must be read: `steps` of each dataset.

        Share 0 of 1 is the first steps, always the same; share n of N the steps n * steps ....
        """
        waits_at, iterator = _waiting[self].pop((steps, of), (number, None))
        if iterator is None or waits_at != number:
            # There is nothing to rewrite in it, and looking for it costs a third of starting an iterator;
            # what tunes an iterator is a thread of its own, also while the iterator waits
            quick = tf.data.Options()
            quick.experimental_optimization.apply_default_optimizations = False
            quick.autotune.enabled = False
            dataset = self._shares(steps, number, number + 1)
            if _is_small(dataset):
                dataset = self._shares(steps, 0, of).repeat()
                if number:  # training was interrupted
                    dataset = self._shares(steps, number, of).concatenate(dataset)
            iterator = iter(dataset.with_options(quick))
        yield iterator
        if _is_small(iterator):  # only now: one that was left in the middle is at no share
            _waiting[self][steps, of] = (number + 1) % of, iterator


def _is_small(elements: Any) -> bool:
    specs = tf.nest.flatten(elements.element_spec)
    return sum(math.prod(spec.shape) * spec.dtype.size for spec in specs) <= LARGEST_KEPT
