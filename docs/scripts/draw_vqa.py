"""Draw docs/images/vqa_samples.png and the figures of docs/vqa.md; print its tables.

    modtf report --results=studies/vqa_quick --archive=docs/study/vqa.zip    # of the finished cells
    modtf report --results=studies/vqa_attribute --archive=docs/study/vqa_attribute.zip
    python docs/scripts/draw_vqa.py

vqa_samples.png shows training examples of every question. The rest comes from vqa.zip and vqa_attribute.zip
in docs/study. The five cells that both studies share are only in vqa.zip."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.intervals import LEVEL, summarise
from modtf.analysis.pairs import as_one_family, compare_pairs
from modtf.analysis.text import listing, markdown_table, with_interval
from modtf.experiments.vqa import MAIN
from modtf.experiments.vqa.claims import against_chance, routed
from modtf.families import FAMILIES
from modtf.families.vqa_questions import QUESTIONS
from modtf.metrics import alignment, inverse_mutual_information

DOCS = Path(__file__).parents[1]
FAMILY = FAMILIES["vqa_mnist"]
LIBRARIES = [variant.name for variant in FAMILY.variants if variant.by_default]
SHOWN = 8
ANSWERS = ("no", "yes")


def read() -> tuple[modtf.Study, modtf.Study]:
    """Return all models with two rounds of combinations, and these with those of other rounds."""
    quick = DOCS / "study" / "vqa.zip"
    return modtf.Study.read(quick), modtf.Study.read([quick, DOCS / "study" / "vqa_attribute.zip"])


def asked(part: modtf.Study) -> str:
    """Return its question."""
    return str(part.cells[0].definition.task.question)


def by_width(part: modtf.Study) -> pd.DataFrame:
    """Return the performance, with the width in the names of wider models, as separate libraries."""
    rows = part.performance
    width = rows["width"].min()
    wider = np.where(rows["width"] > width, ", width " + rows["width"].astype(str), "")
    return rows.assign(variant=rows["variant"].astype(str) + wider, width=width)


def by_rounds(study: modtf.Study) -> dict[int, pd.DataFrame]:
    """Return the performance of the main libraries on `attribute`, by rounds of combinations in training."""
    parts = [part for part in study.by_kind if asked(part) == "attribute"]
    rows = {int(part.cells[0].definition.task.rounds): by_width(part) for part in parts}
    return {rounds: rows[rounds][rows[rounds]["variant"].isin(MAIN)] for rounds in sorted(rows)}


def compared(parts: Mapping[Any, pd.DataFrame]) -> pd.DataFrame:
    """Compare every library with the reference, out of distribution, as one family of tests."""
    tables = []
    for part, rows in parts.items():
        pairs = [(name, FAMILY.reference) for name in rows["variant"].unique() if name != FAMILY.reference]
        tables.append(compare_pairs(rows[rows["distribution"] == OUT], pairs).assign(part=part))
    return as_one_family(pd.concat(tables, ignore_index=True), LEVEL)


def errors(title: str, parts: Mapping[Any, pd.DataFrame]) -> str:
    """Return the errors of every library in every part, and by how much less it errs than the reference.

    Args:
        title: what the parts are, such as "question".
        parts: the performance of the libraries of each, see `by_width`.
    """
    found, rows = compared(parts), []
    for part, each in parts.items():
        gains = found[found["part"] == part].set_index("first")
        names = sorted(each["variant"].unique(), key=order)
        rows += [[part, *of_library(name, each[each["variant"] == name], gains)] for name in names]
    looks = int(found["p"].notna().sum())
    header = [title, "library", "parameters", "rate", "tasks", "error % in", "error % out"]
    gain = f"less than {FAMILY.reference} out, points"
    return markdown_table([*header, gain, f"p, Holm over {looks}"], rows, left=2)


def order(name: str) -> tuple[int, str]:
    """Return a key that sorts libraries in the order of the family, wider ones last."""
    return (LIBRARIES.index(name) if name in LIBRARIES else len(LIBRARIES)), name


def of_library(name: str, rows: pd.DataFrame, gains: pd.DataFrame) -> list[str]:
    """Return name, parameters, rate, tasks, errors in and out of distribution, the gain and its p."""
    means = summarise(rows, ["distribution"], ["condition", "protocol"])
    means = means.set_index("distribution")
    found = [
        f"{row['mean']:.1f} ±{(row['high'] - row['low']) / 2:.1f}"
        for _, row in means.loc[[IN, OUT]].iterrows()
    ]
    about = [f"{rows['num_parameters'].max():,}", rates_of(rows), str(means.loc[OUT, "num_tasks"])]
    if name not in gains.index:
        return [name, *about, *found, "", ""]
    row = gains.loc[name]
    gain = with_interval(row["gain"], row["gain_low"], row["gain_high"], "+.1f")
    return [name, *about, *found, gain, f"{row['p_corrected']:.3f}" if row["p"] == row["p"] else ""]


def rates_of(rows: pd.DataFrame) -> str:
    """Return the learning rates of some results, in words."""
    return listing(sorted({str(protocol).partition("@")[2] for protocol in rows["protocol"]}))


def found_by_routers(study: modtf.Study) -> list[str]:
    """Return whether the router's matrix is nearer to the sub-task groups than chance, in Markdown."""
    rows = []
    for part in study.by_kind:
        tasks, groups = routed(part)
        for measure in (alignment, inverse_mutual_information) if tasks else ():
            chance = against_chance(list(tasks.values()), groups, measure)
            by_chance = with_interval(chance.permuted.mean(), *chance.interval, ".3f")
            name = measure.__name__.replace("_", " ")
            rows.append(
                [asked(part), name, len(tasks), f"{chance.tasks.mean():.3f}", by_chance, f"{chance.p:.3f}"]
            )
    header = ["question", "measure against groups", "tasks", "routed", "chance (95% of it)", "p"]
    return [markdown_table(header, rows, left=2)] if rows else []


def texts(studies: tuple[modtf.Study, modtf.Study]) -> dict[str, list[str]]:
    """Return the tables of the page."""
    quick, several = studies
    questions = {asked(part): by_width(part) for part in quick.by_kind}
    tables = [errors("question", {name: questions[name] for name in QUESTIONS})]
    return {"vqa.md": [*tables, *found_by_routers(quick), errors("rounds", by_rounds(several))]}


def draw(studies: tuple[modtf.Study, modtf.Study], folder: Path = DOCS / "images") -> list[Path]:
    """Write the pictures of the libraries with two rounds, and of the main ones over rounds."""
    quick, several = studies
    curves = {
        f"vqa_combinations_{name}": several.figure(f"{name}_accuracy_vs_combinations")[0]
        for name in ("novel", "iid")
    }
    return write_pngs({"vqa_libraries": quick.figure("libraries_bars")[0], **curves}, folder)


def samples(path: Path) -> None:
    """Write a row of examples for every question, each with its question and answer."""
    figure = Figure(figsize=(1.25 * SHOWN, 6.6), dpi=100, layout="constrained")
    for row, (question, about) in zip(figure.subplots(len(QUESTIONS), SHOWN), QUESTIONS.items(), strict=True):
        task = modtf.Task("vqa_mnist", question=question)
        features, target = next(iter(modtf.stream(task, 60)))
        chosen = np.linspace(0, 59, SHOWN).astype(int)
        for axes, example in zip(row, chosen, strict=True):
            image, rules = (features[name][example].numpy() for name in ("inputs", "rule"))
            names = [about.sub_tasks[rule] for rule in rules]
            show(axes, image, f"{' '.join(names[:-1])}\n{names[-1]}? {ANSWERS[int(target[example])]}".strip())
        row[0].set_ylabel(question, weight="bold")
    figure.savefig(path)


def show(axes: Axes, image: np.ndarray, text: str) -> None:
    """Show one picture, or two side by side."""
    if image.ndim == 4:
        image = np.concatenate([image[0], np.ones([28, 2, 3]), image[1]], axis=1)
    axes.imshow(image.clip(0, 1))
    axes.set_title(text, size=7)
    axes.set(xticks=[], yticks=[])


if __name__ == "__main__":
    samples(DOCS / "images" / "vqa_samples.png")
    trained = read()
    draw(trained)
    print("\n\n".join(texts(trained)["vqa.md"]))
