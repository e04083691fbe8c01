"""Writes a study's report: the page, its figures, its tables."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from modtf.analysis.claims.judge import judge_all
from modtf.analysis.figures.registry import FIGURES, Choice
from modtf.analysis.intervals import summarise
from modtf.analysis.labels import with_kinds
from modtf.analysis.pairs import SAME, compare_pairs
from modtf.analysis.report import sections
from modtf.analysis.report.sections import WORDS, question_sections
from modtf.analysis.trained import TrainedModels
from modtf.base.checks import check_choice
from modtf.base.files import replacing, write_csv, write_text
from modtf.metrics import MEASURES
from modtf.pages import page
from modtf.pages.pictures import VECTOR, NothingToDraw, NotMeant, save

PAGE = "report.html"
FOLDERS = ("figures", "tables")  # beside it
MOST_NAMES = 3  # folders in a title


def write_report(
    study: TrainedModels,
    out: Path,
    figures: Sequence[str] = (),
    progress: Callable[[Sequence[str]], Iterable[str]] = iter,
    judged: pd.DataFrame | None = None,
    vector: Sequence[str] = (),
    **choice: Any,
) -> Path:
    """Write report.html, figures/ and tables/; remove files of an earlier report that this one lacks.

    Args:
        study: what to report.
        out: the folder; it is made where there is none.
        figures: names of registered figures; all by default.
        progress: wraps the names of the figures, for example `tqdm`.
        judged: from `study.claims()`; judged here if not given. With an empty frame the page has no verdicts:
            judging takes longer than drawing.
        vector: "svg" or "pdf", to write every figure in these formats, too.
        **choice: fields of `modtf.analysis.figures.Choice`.

    Returns:
        The path of the page.

    Raises:
        ValueError: if a figure is not registered, a format is another one, or two pictures have one name.
        OSError: if `out` cannot be written.
    """
    for name in figures:
        check_choice("figure", name, FIGURES)
    for name in vector:
        check_choice("vector", name, VECTOR)
    for folder in FOLDERS:
        (out / folder).mkdir(parents=True, exist_ok=True)
    judged = judge_all(study) if judged is None else judged
    paired = with_kinds(compare_pairs(study.performance, by=SAME, level=study.level))
    with replacing(out, *FOLDERS):
        _write_tables(study, out, paired, judged)
        drawn: dict[str, list[page.Image]] = {}
        names: set[str] = set()  # of all pictures
        undrawn: list[tuple[str, str]] = []
        for name in progress(list(figures or FIGURES)):
            images, reason = _draw(name, study, Choice(**choice), out, vector, names)
            if reason:
                undrawn.append((name, reason))
            if images:
                drawn[name] = images
        top, questions = question_sections(drawn)
        parts = [
            sections.findings_section(study, top),
            *questions,
            *([] if judged.columns.empty else [sections.claims_section(study, judged, drawn)]),
            sections.contents_section(study),
            sections.missing_section(study),
            sections.paired_section(paired),
            sections.protocols_section(study),
            page.measures_section(MEASURES.values()),
            page.glossary_section(WORDS),
            *sections.undrawn_section(undrawn),
        ]
        write_text(out / PAGE, page.render(f"modtf report: {source_of(study)}", parts))
    return out / PAGE


def source_of(study: TrainedModels) -> str:
    """Return the names of the folders or archives that the results come from, for a title."""
    names = list(dict.fromkeys(cell.path.parent.name for cell in study.cells))
    return ", ".join(names[:MOST_NAMES]) + f" and {len(names) - MOST_NAMES} more" * (len(names) > MOST_NAMES)


def _write_tables(study: TrainedModels, out: Path, paired: pd.DataFrame, judged: pd.DataFrame) -> None:
    """Write the tables of the study."""
    tables = {
        "results": study.results,
        "summary": summarise(study.results, level=study.level),
        **({} if judged.columns.empty else {"claims": judged}),
        "paired_comparisons_by_cell": paired,
        **({"missing": study.missing} if study.cells else {}),
    }
    for name, frame in tables.items():
        write_csv(out / "tables" / f"{name}.csv", frame)


def _draw(
    name: str, study: TrainedModels, choice: Choice, out: Path, vector: Sequence[str], names: set[str]
) -> tuple[list[page.Image], str]:
    """Draw and write the pictures of a figure; return them, and why there is nothing to draw, or "".

    The names of the pictures are added to `names`; raise `ValueError` if one of them is there already."""
    images: list[page.Image] = []
    suffixes = ", ".join(f".{suffix}" for suffix in ("png", *vector))
    try:
        for picture in FIGURES[name](study, choice):
            if picture.name in names:
                raise ValueError(
                    f"The figure {name!r} has a second picture with the name {picture.name!r}, whose files "
                    "would replace those of the first. Give every picture of a report its own name."
                )
            names.add(picture.name)
            png = save(picture, out / "figures", out / "tables", vector)
            files = f"figures/{picture.name}{suffixes}; tables/{picture.name}.csv"
            images.append(page.Image(picture, png, files))
    except NotMeant:
        return [], ""
    except NothingToDraw as reason:
        return images, str(reason)
    return images, ""
