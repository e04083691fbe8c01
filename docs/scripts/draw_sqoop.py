"""Draw docs/images/sqoop_samples.png and the figure of docs/sqoop.md; print its tables.

    modtf report --results=studies/sqoop_quick --archive=docs/study/sqoop.zip
    python docs/scripts/draw_sqoop.py

The samples are training examples. The rest comes from docs/study/sqoop.zip."""

from itertools import product
from pathlib import Path

import pandas as pd
from draw_vqa import show
from matplotlib.figure import Figure

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.claims.evidence import mean_evidence
from modtf.analysis.figures.base import write_pngs
from modtf.analysis.intervals import summarise
from modtf.analysis.pairs import as_one_family, compare_pairs, match_members
from modtf.analysis.text import markdown_table, with_interval
from modtf.experiments.sqoop import PLAIN, TREES

DOCS = Path(__file__).parents[1]
SHOWN = 8
PAIRS = list(product(TREES, PLAIN))


def read() -> modtf.Study:
    """Return all trained models."""
    return modtf.Study.read(DOCS / "study" / "sqoop.zip")


def by_objects(study: modtf.Study) -> dict[int, modtf.Study]:
    """Return the parts of the study by the number of objects."""
    return {int(part.cells[0].definition.task.objects): part for part in study.by_kind}


def accuracies(study: modtf.Study) -> str:
    """Return the accuracy of every network on known and on new pairs."""
    rows = []
    for objects, part in sorted(by_objects(study).items()):
        frame = part.performance.assign(value=lambda rows: 100 - rows["value"])
        for name in [name for name in (*PLAIN, *TREES) if name in set(frame["variant"])]:
            own = frame[frame["variant"] == name]
            means = summarise(own, ["distribution"], ["condition", "protocol"], level=part.level)
            means = means.set_index("distribution")
            shown = [
                with_interval(mean, low, min(high, 100), ".1f")
                for mean, low, high in means.loc[[IN, OUT], ["mean", "low", "high"]].to_numpy()
            ]
            rows.append(
                [objects, name, f"{own['num_parameters'].max():,}", means.loc[OUT, "num_tasks"], *shown]
            )
    header = [
        "objects",
        "network",
        "parameters",
        "models",
        "accuracy %, known pairs",
        "accuracy %, new pairs",
    ]
    return markdown_table(header, rows, left=2)


def gains(study: modtf.Study) -> str:
    """Return by how much trees beat plain networks on new pairs, and how the gain depends on the objects."""
    parts = {objects: new_pairs(part) for objects, part in sorted(by_objects(study).items())}
    tables = [
        compare_pairs(frame, PAIRS, level=study.level).assign(objects=objects)
        for objects, frame in parts.items()
    ]
    found = as_one_family(pd.concat(tables, ignore_index=True), study.level)
    rows = [
        [
            row.objects,
            f"{row.first} over {row.second}",
            with_interval(row.gain, row.gain_low, row.gain_high, "+.1f"),
            f"{row.p_corrected:.3f}",
        ]
        for row in found.itertuples()
    ]
    for pair in PAIRS:
        each = [match_members(frame, *pair) for frame in parts.values()]
        if len(each) == 2 and not any(matched.empty for matched in each):
            two, five = (matched.set_index(["data_seed", "seed"])["gain"] for matched in each)
            difference = mean_evidence((five - two).reset_index(), "gain", "", level=study.level)
            shown = with_interval(difference.value, *difference.interval, "+.1f")
            rows.append(["5 less 2", " over ".join(pair), shown, ""])
    header = ["objects", "gain on new pairs", "points of accuracy", f"p, Holm over {len(found)}"]
    return markdown_table(header, rows, left=2)


def new_pairs(part: modtf.Study) -> pd.DataFrame:
    """Return the performance on pairs never seen."""
    rows = part.performance
    return rows[rows["distribution"] == OUT]


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    return {"sqoop.md": [accuracies(study), gains(study)]}


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the picture of all networks."""
    return write_pngs({"sqoop_accuracy": study.figure("sqoop_accuracy")[0]}, folder)


def samples(path: Path) -> None:
    """Write a row of examples with five objects and one with two, each with its question and answer."""
    figure = Figure(figsize=(1.25 * SHOWN, 3.2), dpi=100, layout="constrained")
    for row, objects in zip(figure.subplots(2, SHOWN), (5, 2), strict=True):
        task = modtf.Task("sqoop", objects=objects)
        features, target = next(iter(modtf.stream(task, SHOWN)))
        names = task.family.rule_names(task) or ()
        for axes, image, rules, answer in zip(row, features["inputs"], features["rule"], target, strict=True):
            x, y, relation = (names[rule] for rule in rules)
            show(axes, 2 * image.numpy(), f"{x} {relation} {y}? {('no', 'yes')[int(answer)]}")
        row[0].set_ylabel(f"{objects} objects", weight="bold")
    figure.savefig(path)


if __name__ == "__main__":
    samples(DOCS / "images" / "sqoop_samples.png")
    trained = read()
    draw(trained)
    print("\n\n".join(texts(trained)["sqoop.md"]))
