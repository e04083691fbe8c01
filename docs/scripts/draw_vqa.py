"""Draws docs/images/vqa_samples.png, training examples of every question, and what docs/vqa.md shows of
docs/study/vqa.zip; prints its tables.

    modtf report --results=studies/vqa_quick --archive=docs/study/vqa.zip    # of the cells that are finished
    python docs/scripts/draw_vqa.py
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.intervals import summarise
from modtf.analysis.pairs import compare_pairs
from modtf.analysis.text import markdown_table
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
    """All trained models."""
    return modtf.Study.read(DOCS / "study" / "vqa.zip")


def asked(part: modtf.Study) -> str:
    """Its question."""
    return str(part.cells[0].definition.task.question)


def errors(study: modtf.Study) -> str:
    """Errors of every library, how much less than the reference's on the same tasks, and what lacks."""
    parts, rows = {asked(part): part for part in study.by_kind}, []
    for question in QUESTIONS:
        finished = parts[question].variants if question in parts else []
        rows += [[question, *of_library(parts[question], name)] for name in finished]
        if lacking := [name for name in LIBRARIES if name not in finished]:
            rows.append([question, f"not finished: {', '.join(lacking) if finished else 'all'}", *[""] * 4])
    gain = f"less than {FAMILY.reference} out, points"
    return markdown_table(["question", "library", "tasks", "error % in", "error % out", gain], rows, left=2)


def of_library(part: modtf.Study, name: str) -> list[str]:
    """Name, tasks, errors in and out of distribution, and the gain out of it."""
    rows = part.performance
    means = summarise(rows[rows["variant"] == name], ["distribution"], ["condition"], level=part.level)
    means = means.set_index("distribution")
    found = [
        f"{row['mean']:.1f} ±{(row['high'] - row['low']) / 2:.1f}"
        for _, row in means.loc[[IN, OUT]].iterrows()
    ]
    pairs = compare_pairs(rows[rows["distribution"] == OUT], [(name, FAMILY.reference)], level=part.level)
    gains = [f"{row.gain:+.1f} ({row.gain_low:+.1f} to {row.gain_high:+.1f})" for row in pairs.itertuples()]
    gain = gains[0] if gains and name != FAMILY.reference else ""
    return [name, str(means.loc[OUT, "num_tasks"]), *found, gain]


def found_by_routers(study: modtf.Study) -> list[str]:
    """Is the router's matrix nearer to the groups of sub-tasks than chance? In Markdown, where it was run."""
    rows = []
    for part in study.by_kind:
        tasks, groups = routed(part)
        for measure in (alignment, inverse_mutual_information) if tasks else ():
            chance = against_chance(list(tasks.values()), groups, measure)
            low, high = chance.interval
            by_chance = f"{chance.permuted.mean():.3f} ({low:.3f} to {high:.3f})"
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
    """Write the picture of the libraries; lines over rounds would be points, as all were run with two."""
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
    """One picture, or two side by side."""
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
