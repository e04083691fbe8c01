"""Bars and curves of module networks on known and on new combinations."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, means, performance, register_figure
from modtf.analysis.figures.layout import MOST_SERIES, Look, by_variant, joined, name_bars, whiskers
from modtf.analysis.figures.registry import HELPS, SIZE
from modtf.analysis.rows import IN, OUT
from modtf.analysis.trained import TrainedModels
from modtf.experiments.questions.digits import PUBLISHED_EXAMPLES
from modtf.experiments.questions.question import VALUES, find_combinations
from modtf.experiments.questions.sets import DIGITS, SETS, SQOOP, number
from modtf.pages.pictures import GREY
from modtf.pages.text import plural

COMBINATIONS = VALUES[0] * VALUES[1] * VALUES[2] * VALUES[3]
GUESSED = 50.0  # % accuracy of guessing: the questions are answered by yes or no


def accuracies(study: TrainedModels, distribution: str) -> pd.DataFrame:
    """Return the accuracy in % of every model, with its question, rounds, examples and share of combinations.

    The share is the mean over the data seeds of this question and rounds. If each question has one number of
    examples, `question` includes it and `examples` is ""."""
    rows = performance(study.results)
    rows = rows[rows["distribution"] == distribution]
    options = rows["task_options"].astype(str)
    rows = rows.assign(
        value=100 - rows["value"],
        measure="accuracy",
        question=options.str.extract(r"question=(\w+?)(?:,|$)", expand=False),
        rounds=[int(number(text, "rounds", 2)) for text in options],
        examples=[f"{number(text, 'examples', PUBLISHED_EXAMPLES):,.0f} examples" for text in options],
    )
    asked = ["question", "rounds"]
    seen = rows[[*asked, "data_seed"]].drop_duplicates()
    shares = [
        100 * len(find_combinations(q, r, s)[0]) / COMBINATIONS for q, r, s in seen.itertuples(index=False)
    ]
    mean = seen.assign(share=shares).groupby(asked)["share"].mean().round(2)
    rows = rows.merge(mean.reset_index(), on=asked)
    if rows.groupby("question")["examples"].nunique().le(1).all():  # a grid would fill only its diagonal
        rows = rows.assign(question=rows["question"] + ", " + rows["examples"], examples="")
    return rows


def with_rounds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the number of rounds in `question` if there are several numbers."""
    if rows["rounds"].nunique() == 1:
        return rows
    rows = rows.sort_values(["question", "rounds"], kind="stable")
    asked = zip(rows["question"], rows["rounds"], strict=True)
    names = [f"{question}, {plural(rounds, 'round')}" for question, rounds in asked]
    return rows.assign(question=pd.Categorical(names, list(dict.fromkeys(names))))


def against_combinations(study: TrainedModels, distribution: str, name: str) -> Pictures:
    """Draw one picture for each set of libraries of which several were run."""
    rows, drawn = accuracies(study, distribution), 0
    for part, names in SETS.items():
        some = rows[rows["variant"].isin(names)]
        shares = some.groupby("question", observed=True)["share"].nunique()
        some = some[some["question"].isin(shares.index[shares > 1])]  # a single share is not a curve
        if some["variant"].nunique() > 1:
            drawn += 1
            title = f"Accuracy {distribution}, %: {part}"
            yield means(
                study, some, points, "share", f"{name}_{part}", title, row="examples", column="question"
            )
    if not drawn:
        raise NothingToDraw(
            f"no two libraries of {', '.join(SETS)} were run with several numbers of combinations; --set "
            "task.rounds=1, for example, gives another number"
        )


@register_figure(
    "novel_accuracy_vs_combinations",
    families=[DIGITS],
    question=SIZE,
    shows="The accuracy on new combinations against the number of combinations in training.",
)
def novel(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw the accuracy on combinations never seen."""
    return against_combinations(study, OUT, "novel_accuracy_vs_combinations")


@register_figure(
    "iid_accuracy_vs_combinations",
    families=[DIGITS],
    question=SIZE,
    shows="The accuracy on known combinations against the number of combinations in training.",
)
def iid(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw the accuracy on combinations seen in training."""
    return against_combinations(study, IN, "iid_accuracy_vs_combinations")


@register_figure(
    "libraries_bars", families=[DIGITS], question=HELPS, shows="The accuracy of each library of modules."
)
def libraries(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw every library side by side, at every number of examples and of rounds."""
    for distribution, name in ((OUT, "novel"), (IN, "iid")):
        rows = with_rounds(accuracies(study, distribution))
        title, note = f"Accuracy {distribution}, %", "dashed: guessing"
        named = f"libraries_bars_{name}", title, note
        yield means(study, rows, beside, None, *named, row="examples", column="question")


def points(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look], x: str) -> None:
    """Draw mean and interval of every library against the share of combinations."""
    for name, look, line in by_variant(data, looks, x):
        joined(axes, name, look, line[x], line)
    axes.set_xlabel("combinations in training, %")


def beside(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw a mark with its interval for every library."""
    several = len(looks) > MOST_SERIES
    for place, (name, look) in enumerate(looks.items()):
        line = data[data["variant"] == name]
        for share, one in enumerate(line.itertuples(index=False)):
            row = line.iloc[share : share + 1]
            label = name if share == 0 and not several else None
            axes.bar(place, one.mean, 0.75, color=look.colour, label=label)
            axes.errorbar(place, one.mean, whiskers(row), fmt="none", ecolor="0.45", capsize=2.5)
    name_bars(axes, list(looks) if several else [])
    axes.set_xlim(-0.6, len(looks) - 0.4)  # leave room for missing libraries, too
    axes.axhline(GUESSED, color=GREY, linestyle="--", linewidth=0.8)
    axes.set_ylim(0, 100)


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
