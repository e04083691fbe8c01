"""Bars of module networks and plain networks, with five and with two objects."""

from modtf.analysis.figures import Choice, Pictures, means, performance, register_figure
from modtf.analysis.trained import TrainedModels
from modtf.experiments.questions.figures.digits import beside
from modtf.experiments.questions.sets import SQOOP, number


@register_figure("sqoop_accuracy", families=[SQOOP])
def accuracy(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw the accuracy of every network on pairs seen in training, and on other pairs."""
    rows = performance(study.results)
    objects = [int(number(text, "objects", 5)) for text in rows["task_options"].astype(str)]
    named = [f"{count} objects" for count in objects]
    rows = rows.assign(value=100 - rows["value"], measure="accuracy", objects=named)
    yield means(
        study, rows, beside, None, "sqoop_accuracy", "Accuracy, %", "dashed: guessing",
        row="distribution", column="objects",
    )  # fmt: skip
