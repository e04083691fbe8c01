"""The data of VQA-MNIST: pictures and questions."""

import hashlib
from itertools import islice

import numpy as np
import pytest

import modtf
from modtf.experiments.questions.question import (
    ATTRIBUTES,
    QUESTIONS,
    TYPES,
    VALUES,
    answers,
    draw_combinations,
    find_combinations,
)
from modtf.tasks.cell import Cell

OFFSETS = np.cumsum([0, *VALUES[:-1]])


def task_of(question, **options):
    return modtf.Task("vqa_mnist", question=question, **{"examples": 2520, **options})


def read(task, count=1, split="train", batch_size=60, **options):
    elements = list(islice(modtf.stream(task, batch_size, split, **options), count))
    return tuple(
        np.concatenate([np.asarray(part) for part in parts])
        for parts in zip(*((f["inputs"], f["rule"], y) for f, y in elements), strict=True)
    )


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions_are_even_and_half_the_answers_yes(question):
    task, asked = task_of(question), QUESTIONS[question].num_questions
    _, rules, target = read(task, 2520 // 60)
    last = rules[:, -1] - (QUESTIONS[question].num_leaves if QUESTIONS[question].roots else 0)
    counts = np.zeros([asked, 2], int)
    np.add.at(counts, (last, target), 1)
    assert (counts == 2520 // asked // 2).all()
    np.testing.assert_array_equal(last, np.arange(2520) % asked)  # in turn
    by_batch = target.reshape([-1, 60]).mean(axis=1)
    assert 0.25 < by_batch.min() < by_batch.max() < 0.75


@pytest.mark.parametrize("question", QUESTIONS)
def test_batches_ask_in_turn_what_networks_take_for_granted(question):
    in_turn, size = QUESTIONS[question].in_turn, 2 * QUESTIONS[question].num_questions
    _, rules, _ = read(task_of(question), batch_size=size)
    if question == "spatial":
        assert in_turn == ()  # its leaves name differences
    else:
        np.testing.assert_array_equal(rules, 2 * in_turn)


def sorted_bytes(images):
    return sorted(image.tobytes() for image in images)


def test_an_epoch_has_every_example_once_and_another_order():
    """Free and stratified batches show the same examples, so that models can be compared in pairs."""
    task = task_of("attribute", examples=252)
    first, second = (read(task, batch_size=252, start_step=step)[0] for step in range(2))
    assert sorted_bytes(first) == sorted_bytes(second)
    assert not np.array_equal(first, second)
    reseeded = read(task, batch_size=252, seed=1)[0]  # a seed changes the order alone
    assert sorted_bytes(reseeded) == sorted_bytes(first)
    assert not np.array_equal(reseeded, first)
    assert sorted_bytes(read(task.replace(data_seed=1), batch_size=252)[0]) != sorted_bytes(first)
    free = task.replace(batches="free")
    images, rules, _ = read(free, batch_size=252)
    assert sorted_bytes(images) == sorted_bytes(first)
    assert not np.array_equal(rules[:, 0], np.arange(252) % 21)
    free_cell, cell = (Cell(each, 4, "routed", ((0, 0),)) for each in (free, task))
    assert free_cell.hash != cell.hash


def colours_of(image):
    """Return the colours in an image, from the bright channels of every bright pixel."""
    bright = np.abs(image) > 0.05
    pixels = bright.reshape([-1, 3])[bright.any(axis=-1).ravel()]
    return {tuple(pixel) for pixel in pixels.tolist()}


COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "yellow": (1, 1, 0), "pink": (1, 0, 1)}


@pytest.mark.parametrize("question", ["attribute", "multiple"])
def test_pictures_answer_questions_of_colour(question):
    images, rules, target = read(task_of(question), 2)
    names = QUESTIONS[question].sub_tasks
    for image, rule, answer in zip(images, rules[:, 0], target, strict=True):
        if names[rule] in COLOURS:
            assert (COLOURS[names[rule]] in colours_of(image)) == answer


def _extent(image):
    """Return the longer side of a digit's ink (20 of its original 28 pixels)."""
    rows, columns = np.nonzero(image.max(axis=-1) > 0.1)
    return max(np.ptp(rows), np.ptp(columns)) + 1


def test_comparisons_of_light_colour_and_size():
    images, rules, target = read(task_of("comparison"), 2)
    orders = {"larger": "size", "smaller": "size", "brighter": "light", "darker": "light"}
    names = QUESTIONS["comparison"].sub_tasks
    for pair, rule, answer in zip(images, rules, target, strict=True):
        asked = orders.get(names[rule[2]], names[rule[2]].split("_")[-1])
        assert rule[0] == rule[1] == TYPES.index(asked)
        if names[rule[2]] == "same_color":
            assert (colours_of(pair[0]) == colours_of(pair[1])) == answer
        if names[rule[2]] in ("smaller", "larger"):
            left, right = map(_extent, pair)
            assert abs(left - right) > 2  # never a tie
            assert ((left > right) == (names[rule[2]] == "larger")) == answer
        if names[rule[2]] in ("brighter", "darker"):
            left, right = pair.max(axis=(1, 2, 3))
            assert abs(left - right) > 0.05  # never a tie
            assert ((left > right) == (names[rule[2]] == "brighter")) == answer


def test_order_relations_leave_ties_out():
    train, _ = draw_combinations(123, 5)
    relations = dict(zip(sum(QUESTIONS["comparison"].roots, ()), answers("comparison", train), strict=True))
    sizes = train[:, 3]
    np.testing.assert_array_equal(relations["smaller"][1], sizes[:, None] < sizes)
    np.testing.assert_array_equal(relations["smaller"][0], sizes[:, None] > sizes)
    np.testing.assert_array_equal(relations["different_size"][1], sizes[:, None] != sizes)
    assert not any(np.diagonal(matrix, axis1=1, axis2=2).any() for matrix in relations.values())


def test_spatial_relations_and_leaves():
    """Digits have different colours, so their positions are visible. Leaves name their differences."""
    images, rules, target = read(task_of("spatial"), 4)
    names, seen = QUESTIONS["spatial"].sub_tasks, 0
    for image, (left, right, root), answer in zip(images, rules, target, strict=True):
        assert (left < 21 and right < 21 and left != right) or names[left] not in COLOURS
        if not {names[left], names[right]} <= set(COLOURS):
            continue
        places = [_corner(image, COLOURS[names[leaf]]) for leaf in (left, right)]
        if None in places:
            continue
        (y1, x1), (y2, x2) = places
        axis = {"left_of": x2 - x1, "right_of": x1 - x2, "above": y2 - y1, "below": y1 - y2}[names[root]]
        if abs(axis) > 8:  # ink begins some pixels into the digit
            seen += 1
            assert (axis > 0) == answer
    assert seen > 3


def _corner(image, colour):
    """Return the first row and column of the pixels with exactly this colour."""
    bright = np.abs(image) > 0.1
    rows, columns = np.where((bright == np.array(colour, bool)).all(axis=-1))
    return (rows.min(), columns.min()) if len(rows) > 10 else None


@pytest.mark.parametrize("condition", ["iid", "novel"])
def test_conditions_show_other_combinations(condition):
    """For "red or not", the colours and lights in the pictures are those of the condition's tuples."""
    task = task_of("attribute", rounds=1)
    train, test = find_combinations("attribute", 1, 0)
    images, *_ = read(task, 2, "test", condition=condition)
    allowed = {(c, light) for _, c, light, _ in (train if condition == "iid" else test).tolist()}
    names = list(COLOURS.values())
    for image in images:
        [colour] = colours_of(image)
        light = int(np.argmin(np.abs(image.max() - np.array([0.4, 0.7, 1.0]))))
        assert (names.index(colour), light) in allowed


def test_golden():
    """Pin the first batch of every question. A change here changes every published number."""
    digests = {}
    for question in QUESTIONS:
        images, rules, target = read(task_of(question), 1, "test", 12, condition="novel")
        rounded = np.round(images * 1000).astype("<i4")
        digests[question] = hashlib.sha256(
            rounded.tobytes() + rules.astype("<i4").tobytes() + target.astype("<i4").tobytes()
        ).hexdigest()[:16]
    assert digests == GOLDEN


GOLDEN = {
    "attribute": "924f7f9590fe97f2",
    "multiple": "617239c2b8d16ef6",
    "comparison": "05af5ba4a8647363",
    "spatial": "ef10590e29e3f452",
}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rounds": 3}, "rounds=3 is not known; expected one of 1, 2, 5"),
        ({"examples": 1000.5}, "examples=1000.5 is not valid; expected an integer"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        modtf.Task("vqa_mnist", **options)


def test_names_of_sub_tasks_and_groups():
    sizes = {name: (len(q.sub_tasks), [len(g) for g in q.groups]) for name, q in QUESTIONS.items()}
    assert sizes == {
        "attribute": (21, [10, 5, 3, 3]),
        "multiple": (21, [10, 5, 3, 3]),
        "comparison": (16, [1, 1, 1, 1, 4, 2, 2, 4]),
        "spatial": (25, [10, 5, 3, 3, 4]),
    }
    assert sum(ATTRIBUTES, ())[OFFSETS[1]] == "red"
    places = {
        q: [(p.name, p.num_rules) for p in task_of(q).places.values()] for q in ("comparison", "spatial")
    }
    assert places["comparison"] == [  # every encoder sub-task is a separate group
        ("encoder", 4), ("module", 16), ("module_groups", 8), ("classifier", 12), ("classifier_groups", 4),
    ]  # fmt: skip
    assert places["spatial"] == [
        ("encoder", 21), ("encoder_groups", 4), ("module", 25), ("module_groups", 5),
        ("classifier", 4), ("classifier_groups", 1),
    ]  # fmt: skip
