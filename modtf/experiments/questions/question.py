"""The questions of VQA-MNIST, their sub-tasks, and the groups of sub-tasks. It needs no TensorFlow."""

from dataclasses import dataclass

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
