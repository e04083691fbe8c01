"""The data of SQOOP: images, questions, and the pairs of training."""

import hashlib
from itertools import islice
from typing import Any

import numpy as np
import pytest

import modtf
from modtf.datasets.families.base import check_data
from modtf.experiments.questions import sqoop_data
from modtf.experiments.questions.family import question_of
from modtf.experiments.questions.library import Library
from modtf.experiments.questions.sqoop import SYMBOLS
from modtf.experiments.questions.sqoop_data import APART, NEAR, TILE, pairs, symbols

FEW: dict[str, Any] = {"symbols": 8, "examples": 2016}  # 8 training pairs
HOLDS = {  # for spots (row, column)
    "left_of": lambda a, b: a[1] < b[1],
    "right_of": lambda a, b: a[1] > b[1],
    "above": lambda a, b: a[0] < b[0],
    "below": lambda a, b: a[0] > b[0],
}


def read(objects, count=1, split="train", batch_size=48, side=64, **options):
    task = modtf.Task("sqoop", objects=objects, side=side, **FEW)
    elements = list(islice(modtf.stream(task, batch_size, split, **options), count))
    parts = zip(*((f["inputs"], f["rule"], y) for f, y in elements), strict=True)
    return tuple(np.concatenate([np.asarray(part) for part in each]) for each in parts)


def find(image):
    """Return the objects in an image, (symbol, (row, column)): the windows that equal a symbol."""
    windows = np.lib.stride_tricks.sliding_window_view(image[..., 1], [TILE, TILE])
    ink, found = windows.sum(axis=(2, 3)), []
    for number, tile in enumerate(symbols()[: FEW["symbols"]]):
        for row, column in np.argwhere(np.abs(ink - tile.sum()) < 1e-3).tolist():
            if np.abs(windows[row, column] - tile).max() < 1e-4:
                found.append((number, (row, column)))
    return found


@pytest.mark.parametrize("objects", [2, 5])
@pytest.mark.parametrize("condition", ["iid", "novel"])
def test_answers_are_what_the_image_shows(objects, condition):
    images, rules, target = read(objects, split="test", condition=condition)
    assert images.shape == (48, 64, 64, 3)
    assert not images[..., [0, 2]].any()
    for image, (x, y, relation), answer in zip(images, rules, target, strict=True):
        shown, holds = find(image), HOLDS[["left_of", "right_of", "above", "below"][relation - 8]]
        of_x, of_y = ([spot for symbol, spot in shown if symbol == wanted] for wanted in (x, y))
        assert len(shown) == objects
        assert any(holds(a, b) for a in of_x for b in of_y) == answer
        spots = np.array([spot for _, spot in shown])
        distance = np.abs(spots[:, None] - spots)[np.triu_indices(objects, 1)]
        assert distance.min() >= NEAR
        assert distance.max(axis=1).min() >= APART
        if not answer:
            assert len(of_x) == len(of_y) == 1
            others = [spot for symbol, spot in shown if symbol not in (x, y)]
            for reachable in ((holds(of_x[0], b) for b in others), (holds(b, of_y[0]) for b in others)):
                assert any(reachable) == (objects == 5)


def test_training_pairs_are_few_and_novel_ones_are_the_rest():
    symbols_used, variety = 9, 2
    listed = [tuple(pair) for pair in pairs(symbols_used, variety, 3).tolist()]
    seen, novel = listed[: symbols_used * variety], listed[symbols_used * variety :]
    assert set(listed) == {(x, y) for x in range(symbols_used) for y in range(symbols_used) if x != y}
    assert not set(seen) & set(novel)
    for side in (0, 1):
        assert (np.bincount([pair[side] for pair in seen]) == variety).all()
    assert listed[:4] != [tuple(pair) for pair in pairs(symbols_used, variety, 4).tolist()][:4]


@pytest.mark.parametrize(("split", "condition"), [("train", None), ("test", "iid"), ("test", "novel")])
def test_an_epoch_has_every_pair_as_often(split, condition):
    """Half the answers to every pair are yes. Relations are even. An evaluation has 12,600 examples."""
    count = FEW["examples"] if split == "train" else 12_600
    options: dict[str, Any] = {"condition": condition} if condition else {}
    _, rules, target = read(2, 4, split, count // 4, side=32, **options)
    listed = pairs(8, 1, 0)
    expected = listed[8:] if condition == "novel" else listed[:8]
    for answer in (0, 1):
        found, times = np.unique(rules[target == answer, :2], axis=0, return_counts=True)
        np.testing.assert_array_equal(found, np.unique(expected, axis=0))
        assert times.max() - times.min() <= 1
    relations = np.bincount(rules[:, 2] - 8, minlength=4)
    assert np.abs(relations - count / 4).max() < 5 * np.sqrt(count * 3 / 16)


def test_released_parameters():
    """The released SHNMN (D'Amario et al., scripts/vr/models/shnmn.py) with 47 words has 797,187 and
    4,608,259 parameters; a scalar and seven of its words are never used."""
    task = modtf.Task("sqoop")
    question = question_of(task)
    for name, released, of_word in (("all_all_all", 797_187, 64), ("all_sub_all", 4_608_259, 82_112)):
        counted = Library.of(f"{name}_bn", question).num_parameters(64)
        assert counted == released - 1 - 7 * of_word
        norms = (6 * 64 + 512 + 1024) * 2 - (6 * 64 + 512 + 1024)
        assert Library.of(name, question).num_parameters(64) == counted - norms
    small = modtf.Task("sqoop", objects=2, symbols=5)
    model = modtf.build(small, "all_sub_all_bn", 4)
    assert model.num_parameters == Library.of("all_sub_all_bn", question_of(small)).num_parameters(4)


def test_golden():
    """Pin the first questions. A change here changes every published number. Glyphs depend on Pillow."""
    digests = {}
    for objects in (2, 5):
        images, rules, target = read(objects, split="test", batch_size=12, condition="novel")
        spots = np.array([spot for image in images for _, spot in find(image)])
        parts = [part.astype("<i4").tobytes() for part in (rules, target, spots)]
        digests[objects] = hashlib.sha256(b"".join(parts)).hexdigest()[:16]
    assert digests == {2: "70006e5388867157", 5: "4652c9345bc6e99e"}
    assert len(np.unique(symbols().reshape([len(SYMBOLS), -1]), axis=0)) == len(SYMBOLS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objects": 3}, "objects=3 is not known; expected one of 5, 2"),
        ({"variety": 35}, "variety=35 with symbols=36 leaves no pair for the condition 'novel'"),
        ({"symbols": 4}, "symbols=4 is not valid; expected an integer of at least 5"),
        ({"symbols": 37}, "symbols=37"),
        (
            {"examples": 71},
            "examples=71 leaves a training pair without a yes or a no; expected at least 72, ",
        ),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        modtf.Task("sqoop", **options)


def test_a_missing_font_is_one_line(monkeypatch):
    def missing(size=None):
        raise ImportError("The _imagingft C module is not installed")

    symbols.cache_clear()
    monkeypatch.setattr(sqoop_data.ImageFont, "load_default", missing)
    with pytest.raises(
        ValueError, match=r"needs the font of Pillow 10.1 or later.* _imagingft .* Install it"
    ):
        check_data(modtf.Task("sqoop", objects=2))
