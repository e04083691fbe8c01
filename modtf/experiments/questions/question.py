"""The questions of VQA-MNIST: sub-tasks, their groups, and combinations of attributes; no TensorFlow."""

from dataclasses import dataclass
from functools import cache

import numpy as np

Groups = tuple[tuple[str, ...], ...]

ATTRIBUTES: Groups = (
    tuple("0123456789"),
    ("red", "green", "blue", "yellow", "pink"),
    ("dark", "half", "bright"),
    ("small", "medium", "large"),
)
TYPES = ("category", "color", "light", "size")  # of attributes, in the order of a tuple
VALUES = tuple(map(len, ATTRIBUTES))
ORDERED = {"smaller": "size", "larger": "size", "brighter": "light", "darker": "light"}  # compared attribute
ENCODER, MODULE, CLASSIFIER = PLACES = ("encoder", "module", "classifier")
#: of data seeds 0 and 1; their mean numbers of combinations are the ticks of the published plots
PUBLISHED_SEEDS = {"attribute": (123, 179), "comparison": (123, 789)}
OTHERWISE = (123, 456)  # for the other questions, and `comparison` with 20 rounds
TEST_ROUNDS = 5
#: relations -> the signs of left minus right value that mean yes and no; ties of orders mean neither
ORDERS = {"same": ((0,), (-1, 1)), "different": ((-1, 1), (0,)), "less": ((-1,), (1,)), "more": ((1,), (-1,))}
SHORT = {"smaller": "less_size", "larger": "more_size", "darker": "less_light", "brighter": "more_light"}


@dataclass(frozen=True)
class Question:
    """A type of question: its images, and the sub-tasks that are called."""

    name: str
    shape: tuple[int, ...]  # of an example's images
    leaves: Groups  # sub-tasks of the calls that see an image
    roots: Groups = ()  # of the call on two leaves' answers; empty if one call does everything

    @property
    def in_turn(self) -> tuple[tuple[int, ...], ...]:
        """Return the sub-tasks of the calls of every question, such as (1, 1, 8) of "same_color". It is empty
        if the leaves' sub-tasks vary."""
        questions = range(self.num_questions)
        if not self.roots:
            return tuple((number,) for number in questions)
        if sum(self.leaves, ()) != TYPES:
            return ()
        roots, leaves = sum(self.roots, ()), self.sub_tasks
        kinds = [ORDERED.get(root) or root.split("_")[1] for root in roots]
        leaf = [leaves.index(kind) for kind in kinds]
        return tuple((leaf[number], leaf[number], number + self.num_leaves) for number in questions)

    @property
    def num_calls(self) -> int:
        """The number of calls: three (left, right and root) or one."""
        return 3 if self.roots else 1

    @property
    def groups(self) -> Groups:
        """All groups, in the order of sub-tasks."""
        return self.leaves + self.roots

    @property
    def sub_tasks(self) -> tuple[str, ...]:
        """The names of all R sub-tasks."""
        return sum(self.groups, ())

    @property
    def num_leaves(self) -> int:
        """The number of the leaves' sub-tasks, which come first."""
        return sum(map(len, self.leaves))

    @property
    def num_questions(self) -> int:
        """The number of questions, which are the sub-tasks of the last call."""
        return sum(map(len, self.roots or self.leaves))

    @property
    def group_of(self) -> tuple[int, ...]:
        """The group of every sub-task."""
        return tuple(number for number, group in enumerate(self.groups) for _ in group)

    def sub_tasks_at(self, place: str) -> range:
        """Return the numbers of the sub-tasks that a layer's calls use."""
        leaves, everything = self.num_leaves, len(self.sub_tasks)
        if place == ENCODER:
            return range(leaves)
        return range(leaves if self.roots and place == CLASSIFIER else 0, everything)

    def calls_at(self, place: str) -> tuple[int, ...]:
        """Return the calls of a layer: encoders see images, the classifier is the last."""
        if not self.roots:
            return (0,)
        return {ENCODER: (0, 1), MODULE: (0, 1, 2), CLASSIFIER: (2,)}[place]

    @property
    def sharing(self) -> int:
        """Count the leaves that see one image."""
        return 1 if len(self.shape) > 3 else len(self.calls_at(ENCODER))


RELATIONS = ("left_of", "right_of", "above", "below")
QUESTIONS = {
    question.name: question
    for question in (
        Question("attribute", (28, 28, 3), ATTRIBUTES),
        Question("multiple", (64, 64, 3), ATTRIBUTES),
        Question(
            "comparison",
            (2, 28, 28, 3),
            tuple((name,) for name in TYPES),
            (
                ("same_size", "different_size", "smaller", "larger"),
                ("same_color", "different_color"),
                ("same_category", "different_category"),
                ("same_light", "different_light", "brighter", "darker"),
            ),
        ),
        Question("spatial", (64, 64, 3), ATTRIBUTES, (RELATIONS,)),
    )
}


def draw_combinations(seed: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tuples (category, color, light, size) for training and test, integers [n, 4], in the order
    drawn.

    In every round combinations are drawn until each of the 21 attributes occurred. A combination without a
    new attribute, or one drawn before, is left out. The test's rounds come first, so they do not depend on
    `rounds`, the number of training rounds. More rounds only add to the combinations of fewer.

    Example:
        >>> [len(draw_combinations(123, rounds)[0]) for rounds in (1, 2, 5)]
        [11, 22, 61]
    """
    generator, used, ends = np.random.RandomState(seed), [], []
    for _ in range(TEST_ROUNDS + rounds):
        taken: list[set[int]] = [set() for _ in VALUES]
        while any(len(have) < count for have, count in zip(taken, VALUES, strict=True)):
            drawn = tuple(int(generator.choice(count)) for count in VALUES)
            new = any(value not in have for value, have in zip(drawn, taken, strict=True))
            if new and drawn not in used:
                used.append(drawn)
                for value, have in zip(drawn, taken, strict=True):
                    have.add(value)
        ends.append(len(used))
    test, last = ends[TEST_ROUNDS - 1], ends[-1]
    return np.array(used[test:last], np.int32), np.array(used[:test], np.int32)


def answers(question: str, tuples: np.ndarray) -> np.ndarray:
    """Return the pairs of tuples that answer each question with no, and with yes: bool [Q, 2, T, T].

    Questions about one object use pairs of a tuple with itself.
    """
    number = len(tuples)
    distinct = ~np.eye(number, dtype=bool)
    attributes = np.eye(max(VALUES), dtype=bool)[tuples]
    has = np.concatenate([attributes[:, n, :count] for n, count in enumerate(VALUES)], axis=1).T  # [21, T]
    if question == "attribute":
        return np.stack([~has, has], 1)[..., None] & ~distinct
    if question == "multiple":
        no = ~has[:, :, None] & ~has[:, None, :] & distinct
        return np.stack([no, has[:, :, None] & ~has[:, None, :]], 1)
    asked = sum(QUESTIONS[question].roots, ())
    if question == "spatial":
        return np.broadcast_to(distinct, [len(asked), 2, number, number])
    signs = np.sign(tuples[:, None] - tuples[None])
    labels = []
    for name in asked:
        order, attribute = SHORT.get(name, name).split("_")
        sign = signs[..., TYPES.index(attribute)]
        labels.append([np.isin(sign, ORDERS[order][1 - answer]) & distinct for answer in (0, 1)])
    return np.array(labels)


@cache
def find_combinations(question: str, rounds: int, data_seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tuples for training and test in which every question has a yes and a no."""
    exception = (question, rounds) == ("comparison", 20)
    published = OTHERWISE if exception else PUBLISHED_SEEDS.get(question, OTHERWISE)
    seeds = published[data_seed : data_seed + 1] or (data_seed, data_seed + 1000)
    for seed in seeds:
        combinations = draw_combinations(seed, rounds)
        if all(answers(question, tuples).any(axis=(2, 3)).all() for tuples in combinations):
            return combinations
    raise ValueError(
        f"question={question!r}, rounds={rounds}, data_seed={data_seed}: some question has only the answer "
        "yes, or only no, among the combinations drawn. Choose more rounds or another data_seed."
    )


def pairs(question: str, rounds: int, data_seed: int) -> dict[str, np.ndarray]:
    """Return the pairs behind every answer. Training's pairs come first; each list has its own order.

    They are `tuples` [T, 4], `pairs` of their numbers [n, 2], and `starts` and `counts` [2, Q, 2] by set,
    question and answer."""
    both = find_combinations(question, rounds, data_seed)
    generator = np.random.RandomState(data_seed)
    lists, counts = [], []
    for number, tuples in enumerate(both):
        for matrix in answers(question, tuples).reshape([-1, len(tuples), len(tuples)]):
            listed = generator.permutation(np.argwhere(matrix)) + number * len(both[0])
            lists.append(listed)
            counts.append(len(listed))
    shape = [2, QUESTIONS[question].num_questions, 2]
    return {
        "tuples": np.concatenate(both).astype(np.int32),
        "pairs": np.concatenate(lists).astype(np.int32),
        "starts": (np.cumsum(counts) - counts).reshape(shape).astype(np.int32),
        "counts": np.array(counts, np.int32).reshape(shape),
    }
