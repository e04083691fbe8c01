"""Example images of questions, each with its question and answer."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from modtf.analysis.figures import Choice, NothingToDraw, Picture, Pictures, register_figure
from modtf.analysis.labels import kind_label, task_of
from modtf.analysis.trained import TrainedModels
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
    names = task.family.rule_names(task) or ()
    found = []
    for place in np.linspace(0, 59, SHOWN).astype(int).tolist():
        image, rules = (features[name][place].numpy() for name in ("inputs", "rule"))
        *first, last = [names[rule] for rule in rules]
        if task.arch == SQOOP:  # x, y and their relation, on a dark ground
            image, first, last = 2 * image, [first[0], last], first[1]
        found.append((image, f"{' '.join(first)}\n{last}?".strip(), ANSWERS[int(target[place])]))
    return found


def show(axes: Axes, image: np.ndarray, text: str) -> None:
    """Show one image, or two side by side, below a text."""
    if image.ndim == 4:
        image = np.concatenate([image[0], np.ones([28, 2, 3]), image[1]], axis=1)
    axes.imshow(image.clip(0, 1))
    axes.set_title(text, size=7)
    axes.set(xticks=[], yticks=[])
