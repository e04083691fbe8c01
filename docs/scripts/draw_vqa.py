"""Draw docs/images/vqa_samples.png and the figures of docs/vqa.md; print its tables.

    modtf report --results=studies/vqa_quick --archive=docs/study/vqa.zip    # of the finished cells
    python docs/scripts/draw_vqa.py

vqa_samples.png shows training examples of every question. The rest comes from docs/study/vqa.zip."""

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.intervals import summarise
from modtf.analysis.pairs import as_one_family, compare_pairs
from modtf.analysis.text import listing, markdown_table, with_interval
from modtf.experiments.vqa.claims import against_chance, routed
from modtf.families import FAMILIES
from modtf.families.vqa_questions import QUESTIONS
from modtf.metrics import alignment, inverse_mutual_information

DOCS = Path(__file__).parents[1]
FAMILY = FAMILIES["vqa_mnist"]
LIBRARIES = [variant.name for variant in FAMILY.variants if variant.by_default]
SHOWN = 8
ANSWERS = ("no", "yes")


def read() -> modtf.Study:
    """Return all trained models."""
    return modtf.Study.read(DOCS / "study" / "vqa.zip")


def asked(part: modtf.Study) -> str:
    """Return its question."""
    return str(part.cells[0].definition.task.question)


def by_width(part: modtf.Study) -> pd.DataFrame:
    """Return the performance, with the width in the names of wider models, as separate libraries."""
    rows = part.performance
    width = rows["width"].min()
    wider = np.where(rows["width"] > width, ", width " + rows["width"].astype(str), "")
    return rows.assign(variant=rows["variant"].astype(str) + wider, width=width)


def compared(study: modtf.Study) -> pd.DataFrame:
    """Compare every library with the reference, out of distribution, as one family of tests."""
    tables = []
    for part in study.by_kind:
        rows = by_width(part)
        pairs = [(name, FAMILY.reference) for name in rows["variant"].unique() if name != FAMILY.reference]
        found = compare_pairs(rows[rows["distribution"] == OUT], pairs, level=part.level)
        tables.append(found.assign(question=asked(part)))
    return as_one_family(pd.concat(tables, ignore_index=True), study.level)


def errors(study: modtf.Study) -> str:
    """Return the errors of every library, the reduction from the reference on the same tasks, and gaps."""
    parts, rows, found = {asked(part): part for part in study.by_kind}, [], compared(study)
    for question in QUESTIONS:
        finished = list(by_width(parts[question])["variant"].unique()) if question in parts else []
        gains = found[found["question"] == question].set_index("first")
        rows += [
            [question, *of_library(parts[question], name, gains)] for name in sorted(finished, key=order)
        ]
        if lacking := [name for name in LIBRARIES if name not in finished]:
            rows.append([question, f"not finished: {', '.join(lacking) if finished else 'all'}", *[""] * 7])
    looks = int(found["p"].notna().sum())
    header = ["question", "library", "parameters", "rate", "tasks", "error % in", "error % out"]
    gain = f"less than {FAMILY.reference} out, points"
    return markdown_table([*header, gain, f"p, Holm over {looks}"], rows, left=2)


def order(name: str) -> tuple[int, str]:
    """Return a key that sorts libraries in the order of the family, wider ones last."""
    return (LIBRARIES.index(name) if name in LIBRARIES else len(LIBRARIES)), name


def of_library(part: modtf.Study, name: str, gains: pd.DataFrame) -> list[str]:
    """Return name, parameters, rate, tasks, errors in and out of distribution, the gain and its p."""
    rows = by_width(part)
    rows = rows[rows["variant"] == name]
    means = summarise(rows, ["distribution"], ["condition", "protocol"], level=part.level)
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


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    return {"vqa.md": [errors(study), *found_by_routers(study)]}


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the picture of the libraries. All were run with two rounds, so there are no lines over rounds."""
    return write_pngs({"vqa_libraries": study.figure("libraries_bars")[0]}, folder)


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
