"""The base of families whose questions are answered by calls of modules in a tree."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modtf.experiments.questions.library import ROUTED_ENCODER, Library
from modtf.experiments.questions.question import PLACES, Question
from modtf.tasks.family import Family, Variant
from modtf.tasks.observed import Place

if TYPE_CHECKING:
    from modtf.tasks.task import Task


def library(name: str, by_default: bool = True) -> Variant:
    """Return a library with fixed routing, given its degrees at encoder, module and classifier."""
    title = name.replace("_", " - ").replace(" - bn", " (bn)")
    return Variant(name, title, router="gt_modular", model={"library": name}, by_default=by_default)


class QuestionFamily(Family):
    """A family of questions about images. An answer is yes or no; a token is a call of a module."""

    architecture = "vqa"
    settings = ("categorical",)
    inputs_by_token, target_by_token = False, False
    training_length = 1

    def question(self, task: "Task") -> Question:
        """Return the type of question of a task."""
        raise NotImplementedError

    def token_shape(self, task: "Task") -> tuple[int, ...]:
        return self.question(task).shape

    def num_tokens(self, task: "Task") -> int:
        return self.question(task).num_calls

    def num_classes(self, task: "Task") -> int:
        return 2

    def rule_names(self, task: "Task") -> tuple[str, ...]:
        return self.question(task).sub_tasks

    def check_model(self, task: "Task", options: Mapping[str, Any]) -> None:
        Library.of(options.get("library", ROUTED_ENCODER), self.question(task))

    def places(self, task: "Task") -> dict[str, Place]:
        """Return encoder, module and classifier, each by sub-tasks and by their groups."""
        asked, places = self.question(task), {}
        for name in PLACES:
            calls, of_place = asked.calls_at(name), asked.sub_tasks_at(name)
            sub_tasks = {rule: number for number, rule in enumerate(of_place)}
            places[name] = Place(
                name, len(of_place), tuple(asked.sub_tasks[r] for r in of_place), calls, sub_tasks
            )
            first, last = asked.group_of[of_place[0]], asked.group_of[of_place[-1]]
            groups = {rule: asked.group_of[rule] - first for rule in of_place}
            if last - first + 1 == len(of_place):  # a group for each
                continue
            titles = tuple(
                group[0] + ("..." if group[1:] else "") for group in asked.groups[first : last + 1]
            )
            places[f"{name}_groups"] = Place(f"{name}_groups", len(titles), titles, calls, groups)
        return places


def question_of(task: "Task") -> Question:
    """Return the type of question of a task. Raise `ValueError` if its family asks none."""
    if isinstance(task.family, QuestionFamily):
        return task.family.question(task)
    raise ValueError(
        f"The network 'vqa' answers questions about images, and arch={task.arch!r} asks none. Choose another "
        "architecture."
    )
