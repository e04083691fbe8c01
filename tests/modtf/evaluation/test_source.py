"""An evaluation's batches are read again and again from one iterator, always from the beginning."""

import numpy as np
import pytest
import tensorflow as tf

from modtf.evaluation.source import LARGEST_KEPT, Source


def counting(shape=()):
    return tf.data.Dataset.counter().map(lambda i: tf.fill(shape, i))


def read(source, steps):
    with source.first(steps) as iterator:
        return [int(np.ravel(next(iterator))[0]) for _ in range(steps)], iterator


def test_it_begins_again_with_the_same_iterator():
    source = Source(counting().take)
    first, iterator = read(source, 3)
    again, same = read(source, 3)
    assert first == again == [0, 1, 2]
    assert same is iterator
    assert read(source, 5)[0] == [0, 1, 2, 3, 4]


def test_an_iterator_that_was_left_in_the_middle_is_not_used_again():
    source = Source(counting().take)
    reading = source.first(3)
    iterator = reading.__enter__()
    next(iterator)
    found, another = read(source, 3)  # two that read at once have an iterator each
    assert found == [0, 1, 2]
    assert not reading.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert read(source, 3) == ([0, 1, 2], another)
    assert another is not iterator


def test_large_batches_are_not_kept_in_memory():
    source = Source(counting([LARGEST_KEPT // 8 + 1]).take)
    first, iterator = read(source, 2)
    again, another = read(source, 2)
    assert first == again == [0, 1]
    assert another is not iterator
    with pytest.raises(StopIteration):
        next(another)
