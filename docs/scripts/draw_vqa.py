"""Make the tables and figures of docs/vqa.md.

    python docs/scripts/draw_vqa.py   # docs/images/vqa_samples.png: training examples of every question

The five cells that vqa_quick and vqa_attribute share are only in vqa.zip.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sources import IMAGES, RESULTS, archive, study_file, write_pngs

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.intervals import LEVEL, summarise
from modtf.analysis.pairs import as_one_family, compare_pairs
from modtf.experiments.questions.claims import against_chance, routed
from modtf.experiments.questions.examples import SHOWN, examples, show
from modtf.experiments.questions.question import QUESTIONS
from modtf.experiments.questions.sets import MAIN
from modtf.metrics import alignment, inverse_mutual_information
from modtf.pages.text import listing, markdown_table, with_interval
from modtf.tasks.families import FAMILIES

DIGITS = FAMILIES["vqa_mnist"]
SMALLEST = "smallest to be seen (80% power)"
LIBRARIES = [variant.name for variant in DIGITS.variants]
ADDED = [variant.name for variant in DIGITS.variants if not variant.by_default]
#: of the supplement: the library that the paper finds better, or alike, and the others
CLAIMED = {
    "group_all_all": ("all_sub_all", "all_all_all_bn", "all_sub_all_bn", "sub_subfind_sub"),
    "sub_sub_sub": ("sub_subfind_sub",),
    "sub_mixed_all": ("all_mixed_all",),
}


Studies = tuple[modtf.Study, modtf.Study, modtf.Study, modtf.Study]


def read() -> Studies:
    """Return `vqa_quick`, that with other rounds, that with the supplement, and `vqa_ten_times`."""
    wider = archive("vqa", "vqa_attribute"), archive("vqa", "vqa_supplement")
    return archive("vqa"), *wider, archive("vqa_ten_times")


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


def with_supplement(study: modtf.Study) -> dict[str, pd.DataFrame]:
    """Return the performance of all libraries at the least width, by question that the supplement trains."""
    rows = {asked(part): part.performance for part in study.by_kind if set(part.variants) & set(ADDED)}
    return {name: each[each["width"] == each["width"].min()] for name, each in rows.items()}


def supplement_only(parts: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the rows of the reference and of the libraries that the supplement adds."""
    return {name: rows[rows["variant"].isin([DIGITS.reference, *ADDED])] for name, rows in parts.items()}


def claimed(parts: Mapping[str, pd.DataFrame]) -> str:
    """Return by how much less one library errs than another in the pairs of the paper, in Markdown."""
    found = compared(parts, [(first, second) for first, others in CLAIMED.items() for second in others])
    rows = [[row["part"], row["first"], row["second"], *gain_of(row)] for _, row in found.iterrows()]
    header = ["question", "library", "errs less than", "points, new combinations"]
    return markdown_table([*header, SMALLEST, f"p, Holm over {len(rows)}"], rows, left=3)


def gain_of(row: "pd.Series[Any]") -> list[str]:
    """Return a gain with its interval, the smallest that it could have been, and its corrected p, if any."""
    gain = with_interval(row["gain"], row["gain_low"], row["gain_high"], "+.1f")
    found = bool(row["p"] == row["p"])
    return [gain, f"{row['smallest_gain']:.1f}" * found, f"{row['p_corrected']:.3f}" * found]


def compared(
    parts: Mapping[Any, pd.DataFrame], pairs: Sequence[tuple[str, str]] | None = None
) -> pd.DataFrame:
    """Compare libraries, out of distribution, as one family of tests; by default each with the reference."""
    tables = []
    for part, rows in parts.items():
        rows = rows[rows["distribution"] == OUT]
        names = rows["variant"].unique()
        others = [(name, DIGITS.reference) for name in names if name != DIGITS.reference]
        run = [pair for pair in pairs or others if {*pair} <= {*names}]
        tables.append(compare_pairs(rows, run).assign(part=part))
    return as_one_family(pd.concat(tables, ignore_index=True), LEVEL)


def distinct(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without libraries that are the network of another under a second name."""
    wide = rows.pivot_table("value", "variant", ["distribution", "data_seed", "seed"], observed=True)
    wide = wide.loc[sorted(wide.index, key=order)]
    return rows[~rows["variant"].isin(wide.index[wide.duplicated()])]


def errors(title: str, parts: Mapping[Any, pd.DataFrame]) -> str:
    """Return the errors of every library in every part, and by how much less it errs than the reference.

    Args:
        title: what the parts are, such as "question".
        parts: the performance of the libraries of each, see `by_width`.
    """
    parts = {part: distinct(each) for part, each in parts.items()}
    found, rows = compared(parts), []
    for part, each in parts.items():
        gains = found[found["part"] == part].set_index("first")
        names = sorted(each["variant"].unique(), key=order)
        rows += [[part, *library_row(name, each[each["variant"] == name], gains)] for name in names]
    looks = int(found["p"].notna().sum())
    header = [title, "library", "parameters", "rate", "tasks", "error % in", "error % out"]
    gain = f"less than {DIGITS.reference} out, points"
    return markdown_table([*header, gain, SMALLEST, f"p, Holm over {looks}"], rows, left=2)


def order(name: str) -> tuple[int, str]:
    """Return a key that sorts libraries in the order of the family, wider ones last."""
    return (LIBRARIES.index(name) if name in LIBRARIES else len(LIBRARIES)), name


def library_row(name: str, rows: pd.DataFrame, gains: pd.DataFrame) -> list[str]:
    """Return name, parameters, rate, tasks, errors in and out of distribution, the gain and its p."""
    means = summarise(rows, ["distribution"], ["condition", "protocol"])
    means = means.set_index("distribution")
    found = [
        f"{row['mean']:.1f} ±{(row['high'] - row['low']) / 2:.1f}"
        for _, row in means.loc[[IN, OUT]].iterrows()
    ]
    about = [f"{rows['num_parameters'].max():,}", rates_of(rows), str(means.loc[OUT, "num_tasks"])]
    if name not in gains.index:
        return [name, *about, *found, "", "", ""]
    return [name, *about, *found, *gain_of(gains.loc[name])]


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


def spatial(name: str, by: str) -> str:
    """Return the errors at the end of every model on `spatial` of an archive, in Markdown.

    Args:
        name: the archive.
        by: what its models differ in besides the library, "rate" or "task".
    """
    rows = modtf.load_results(RESULTS / f"{name}.zip").query("measure == 'error' and checkpoint == 'tail'")
    rate = rows["protocol"].astype(str).str.partition("@")[2].astype(float)
    wide = rows.assign(rate=rate, task=rows["data_seed"]).pivot(
        index=["variant", by], columns="condition", values="value"
    )
    body = [
        [library, f"{value:g}", f"{known:.1f}", f"{new:.1f}"]
        for (library, value), known, new in wide[["iid", "novel"]].itertuples(name=None)
    ]
    search = ", search" if by == "rate" else ""
    return markdown_table([f"library (spatial{search})", by, "error % in", "error % out"], body)


def texts(studies: Studies) -> dict[str, list[str]]:
    """Return the tables of the page."""
    quick, several, added, more = studies
    questions = {asked(part): by_width(part) for part in quick.by_kind}
    tables = [errors("question", {name: questions[name] for name in QUESTIONS}), *found_by_routers(quick)]
    others = with_supplement(added)
    tables += [errors("rounds", by_rounds(several)), errors("question", supplement_only(others))]
    many = {f"{study_file('vqa').MANY:,}": by_width(more)}
    return {
        "vqa.md": [
            *tables,
            claimed(others),
            errors("examples", many),
            spatial("vqa_spatial_tuning", "rate"),
            spatial("vqa_spatial", "task"),
        ]
    }


def draw(studies: Studies, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the libraries."""
    return write_pngs({"vqa_libraries": studies[0].figure("libraries_bars")[0]}, folder)


def samples(path: Path, tasks: Mapping[str, modtf.Task], height: float) -> None:
    """Write a row of examples for every task, each with its question and answer."""
    figure = Figure(figsize=(1.25 * SHOWN, height), dpi=100, layout="constrained")
    for row, (name, task) in zip(figure.subplots(len(tasks), SHOWN), tasks.items(), strict=True):
        for axes, (image, *text) in zip(row, examples(task), strict=True):
            show(axes, image, " ".join(text))
        row[0].set_ylabel(name, weight="bold")
    figure.savefig(path)


if __name__ == "__main__":
    each = {question: modtf.Task("vqa_mnist", question=question) for question in QUESTIONS}
    samples(IMAGES / "vqa_samples.png", each, 6.6)
