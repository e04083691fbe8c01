"""The batches of evaluations: the stream, with the input of an output's metric; built once."""

import copy
import weakref
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from modtf import Condition, Population, Task, run_cell
from modtf.datasets.families.mlp import Affine
from modtf.evaluation import batches
from modtf.evaluation.batches import LARGEST_KEPT, Source, alike, evaluation_batches, make_batches
from modtf.evaluation.programs import waiting_iterators
from modtf.tasks.families import FAMILIES
from modtf.tasks.task import SPLITS

POPULATION = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])


IID, LONGER = Condition("iid", "as in training", True), Condition("len3", "3 tokens", seq_len=3)


def test_a_pipeline_is_built_once_for_all_models_of_a_population():
    first = evaluation_batches(POPULATION, "target", 4, "test", (LONGER,))
    same = Population.of([Task("mha", num_rules=3, data_seed=i) for i in range(2)])
    assert evaluation_batches(same, "target", 4, "test", (LONGER,)) is first
    others = [
        (POPULATION.with_seed(1), "target", 4, "test", (LONGER,)),
        (POPULATION, "target", 4, "validation", (LONGER,)),
        (POPULATION, "target", 5, "test", (LONGER,)),
        (POPULATION, "target", 4, "test", (IID,)),
    ]
    assert all(evaluation_batches(*other) is not first for other in others)


def test_a_family_that_is_registered_anew_has_new_pipelines(monkeypatch):
    """A notebook does that after a change of its data."""
    first = evaluation_batches(POPULATION, "target", 4, "test", (LONGER,))
    monkeypatch.setitem(FAMILIES._objects, "mha", copy.copy(POPULATION.family))
    assert evaluation_batches(POPULATION, "target", 4, "test", (LONGER,)) is not first


def test_conditions_that_differ_in_arrays_alone_are_alike():
    def of(name, **options):
        return Condition(name, name, options=options)

    a, b = of("a", order=np.array([1, 2])), of("b", order=np.array([2, 0]))
    longer = of("c", order=np.arange(3))
    other = of("d", order=np.array([1, 2]), kind="x")
    assert alike([IID, a, LONGER, b, longer, other]) == [(IID,), (a, b), (LONGER,), (longer,), (other,)]


def test_conditions_of_one_length_share_a_pipeline_and_read_what_each_reads_alone():
    scaled = Condition("scale2", "inputs x 2", scale=2.0)
    assert alike([IID, scaled, LONGER]) == [(IID, scaled), (LONGER,)]

    def all_batches(*conditions):
        source = make_batches(POPULATION, "target", 4, "test", conditions)
        with source.share(3) as iterator:
            read = [tf.nest.flatten(next(iterator)) for _ in range(3 * source.count)]
        return [[tensor.numpy() for tensor in batch] for batch in read]

    alone = all_batches(IID) + all_batches(scaled)
    for together, expected in zip(all_batches(IID, scaled), alone, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(together, expected, strict=True))
    assert not np.array_equal(alone[0][0], alone[3][0])


def counting(shape=()):
    return tf.data.Dataset.counter().map(lambda i: tf.fill(shape, i))


def counted(steps, first, last):
    return counting().skip(first * steps).take((last - first) * steps)


def read(source, steps, number=0, of=1):
    with source.share(steps, number, of) as iterator:
        return [int(np.ravel(next(iterator))[0]) for _ in range(steps)], iterator


def test_it_begins_again_with_the_same_iterator():
    source = Source(counted)
    first, iterator = read(source, 3)
    again, same = read(source, 3)
    assert first == again == [0, 1, 2]
    assert same is iterator
    assert read(source, 5)[0] == [0, 1, 2, 3, 4]
    left = weakref.ref(iterator)
    del iterator, same
    waiting_iterators.pop(source)  # as when Python ends: nothing else keeps the iterator
    assert left() is None


@pytest.mark.parametrize(("cached", "times"), [(False, 2), (True, 1)])
def test_cached_batches_are_made_once(cached, times):
    made = []

    def noted(number):
        made.append(int(number))
        return number

    def shares(steps, first, last):
        numbers = counted(steps, first, last).map(lambda n: tf.numpy_function(noted, [n], tf.int64))
        return numbers.map(lambda n: tf.ensure_shape(n, []))

    source = Source(shares, cached=cached)
    assert [read(source, 3)[0] for _ in range(2)] == [[0, 1, 2]] * 2
    assert made == [0, 1, 2] * times


@pytest.mark.parametrize(("grey", "times"), [(False, 2), (True, 1)])
def test_of_grey_images_one_channel_is_kept(grey, times, monkeypatch):
    """The limit holds for what is kept."""
    monkeypatch.setattr(batches, "LARGEST_CACHED", 3 * (2 * 4 * 4 + 8))
    made = []

    def image(number):
        made.append(int(number))
        return np.full([2, 1, 4, 4, 3], number, np.uint8)

    def batch(number):
        inputs = tf.ensure_shape(tf.numpy_function(image, [number], tf.uint8), [2, 1, 4, 4, 3])
        return {"inputs": inputs}, number

    source = Source(lambda *which: counted(*which).map(batch), cached=True, grey=grey)
    for _ in range(2):
        with source.share(3) as iterator:
            read = [next(iterator) for _ in range(3)]
        assert [inputs["inputs"].numpy().tolist() for inputs, _ in read] == [
            image(n).tolist() for n in range(3)
        ]
        del made[-3:]
    assert made == [0, 1, 2] * times


@pytest.mark.parametrize("begin", [0, 1])
@pytest.mark.parametrize("large", [False, True])
def test_shares_follow_one_another_and_begin_again(large, begin):
    shape = [LARGEST_KEPT // 8 + 1] if large else []
    source = Source(lambda steps, a, b: counting(shape).skip(a * steps).take((b - a) * steps))
    numbers = [*range(begin, 3), *range(3), 1, 0]
    found = [read(source, 2, number, 3) for number in numbers]
    assert [values for values, _ in found] == [[2 * n, 2 * n + 1] for n in numbers]
    assert len({id(iterator) for _, iterator in found}) == (len(numbers) if large else 3)


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("conditions", [(LONGER,), (IID,)])
def test_shares_are_those_of_the_stream(conditions, on_device):
    source = make_batches(POPULATION, "target", 4, "test", conditions, None, on_device)
    whole = batches_of(source, 6, 0, 1)
    parts = [batch for number in range(3) for batch in batches_of(source, 2, number, 3)]
    for one, other in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(whole[0], whole[2])


def batches_of(source, steps, number, of):
    with source.share(steps, number, of) as iterator:
        found = [next(iterator) for _ in range(steps * source.count)]
    return [(element if source.make is None else source.make(element))[0]["inputs"] for element in found]


class Shifted(Affine):
    """The data of mlp; the targets of every split are shifted by a number of its own."""

    def bank(self):
        return {"shift": np.array(SPLITS.index(self.split))}


@pytest.mark.parametrize(("kind", "shared"), [(Affine, True), (Shifted, False)])
def test_a_program_that_makes_its_data_serves_several_splits_only_if_no_data_depend_on_them(
    kind, shared, monkeypatch
):
    task = Task()
    monkeypatch.setattr(type(task.family), "data", kind)
    population = Population.of(task)
    sources = [make_batches(population, "target", 4, split, (IID,), on_device=True) for split in SPLITS[1:]]
    assert (sources[0].program == sources[1].program) == shared


def test_shares_of_conditions_with_arrays_go_through_all_of_them():
    task = Task("corruptions", dataset="digits")
    conditions = tuple(c for c in task.family.conditions if c.arrays)[:2]
    source = make_batches(Population.of(task, 0), "target", 10, "test", conditions)
    whole = batches_of(source, 4, 0, 1)
    parts = [batches_of(source, 2, number, 2) for number in range(2)]
    for condition in range(2):
        of_parts = [batch for part in parts for batch in part[2 * condition : 2 * condition + 2]]
        for one, other in zip(of_parts, whole[4 * condition : 4 * condition + 4], strict=True):
            np.testing.assert_array_equal(one, other)


def test_an_iterator_that_was_left_in_the_middle_is_not_used_again():
    source = Source(counted)
    reading = source.share(3)
    iterator = reading.__enter__()
    next(iterator)
    found, another = read(source, 3)  # two that read at once have an iterator each
    assert found == [0, 1, 2]
    assert not reading.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert read(source, 3) == ([0, 1, 2], another)
    assert another is not iterator


def resources():
    """Threads of this process, and its memory in MB."""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["Threads"]), int(lines["VmRSS"].split()[0]) // 1024


@pytest.mark.slow
def test_cells_of_one_shape_leave_no_threads_and_little_memory(small_cell, tmp_path):
    found = []
    for i in range(10):
        run_cell(replace(small_cell, members=((i, 0), (i, 1))), tmp_path, verbose=False)
        found.append(resources())
    assert found[-1][0] <= found[1][0] + 5
    assert found[-1][1] <= found[1][1] + 120  # 14 MB a cell, of libraries' caches
