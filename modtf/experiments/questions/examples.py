"""Example images of questions, each with its question and answer."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modtf.analysis.figures import Choice, NothingToDraw, Picture, Pictures, register_figure
from modtf.analysis.labels import kind_label, task_of
from modtf.analysis.trained import TrainedModels
from modtf.experiments.questions.family import question_of
from modtf.experiments.questions.sets import DIGITS, SQOOP

SHOWN = 8  # images of a task type
ANSWERS = ("no", "yes")


@register_figure(
    "questions_examples", families=[DIGITS, SQOOP], shows="Training images with their question and answer."
)
def draw(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw a row of examples for every task type."""
    kinds, rows = study.kinds, []
    figure = Figure(figsize=(1.25 * SHOWN, 1.6 * len(kinds) + 0.3), dpi=100, layout="constrained")
    for row, kind in zip(figure.subplots(len(kinds), SHOWN, squeeze=False), kinds, strict=True):
        arch, setting, options = kind
        task = task_of(arch, setting, options, int(study.part(*kind).results["num_rules"].iloc[0]))
        try:
            found = examples(task)
        except (ImportError, ValueError) as reason:  # no TensorFlow, or no digits
            raise NothingToDraw(str(reason)) from None
        for axes, (image, question, answer) in zip(row, found, strict=True):
            show(axes, image, f"{question} {answer}")
            rows.append((kind_label(*kind), question, answer))
    table = pd.DataFrame(rows, columns=["kind", "question", "answer"])
    asked = ", ".join(kind_label(*kind) for kind in kinds)
    yield Picture(
        "questions_examples", "Example images", f"Above each: question, answer. {asked}.", figure, table
    )


def examples(task: Any) -> list[tuple[np.ndarray, str, str]]:
    """Return training images, each with its question and its answer as texts."""
    import modtf  # TensorFlow takes seconds

    features, target = next(iter(modtf.stream(task, 60)))
    asked = question_of(task)
    found = []
    for place in np.linspace(0, 59, SHOWN).astype(int).tolist():
        image, rules = (features[name][place].numpy() for name in ("inputs", "rule"))
        brightness = 2 if task.arch == SQOOP else 1  # its symbols are dark
        question = sentence(asked.name, [asked.sub_tasks[rule] for rule in rules])
        found.append((brightness * image, question, ANSWERS[int(target[place])]))
    return found


def sentence(question: str, sub_tasks: Sequence[str]) -> str:
    """Return the question whose calls have these sub-tasks.

    Example:
        >>> sentence("spatial", ["half", "5", "left_of"])
        'Is the half bright one left of the 5?'
    """
    *objects, last = (name.replace("half", "half bright") for name in sub_tasks)
    relation, _, kind = last.partition("_")
    if question == "comparison":
        same = f"Do both have the same {kind}?" if relation == "same" else f"Do they differ in {kind}?"
        return same if kind else f"Is the left one {last}?"
    if objects:
        named = objects if question == "sqoop" else [f"the {name}{_one(name)}" for name in objects]
        return f"Is {named[0]} {last.replace('_', ' ')} {named[1]}?"
    article = "" if _one(last) else "an " if last == "8" else "a "
    return f"Is {'any digit' if question == 'multiple' else 'it'} {article}{last}?"


def _one(name: str) -> str:
    """Return the noun of an attribute; a digit needs none."""
    return "" if name.isdigit() else " one"


def show(axes: Axes, image: np.ndarray, text: str) -> None:
    """Show one image, or two side by side, below a text."""
    if image.ndim == 4:
        image = np.concatenate([image[0], np.ones([28, 2, 3]), image[1]], axis=1)
    axes.imshow(image.clip(0, 1))
    axes.set_title(textwrap.fill(text, 24), size=7)
    axes.set(xticks=[], yticks=[])
