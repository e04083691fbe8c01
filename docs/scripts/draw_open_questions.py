"""Print the answers behind docs/open_questions.md, and draw its figure, from archives of the study.

    modtf report --results=studies/open_questions --archive=docs/study/open_questions.zip
    python docs/scripts/draw_open_questions.py

It reads docs/study/open_questions*.zip but open_questions_tuning.zip, whatever cells they hold. It prints the
answers, and writes docs/images/open_questions_finite.png.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
from open_questions_answers import Answer, finite, harder, noise, rules, unequal, withheld
from open_questions_tables import SURE
from scipy import stats

import modtf
from modtf.analysis.contents import stands_on
from modtf.pages.pictures import NothingToDraw, write_pngs
from modtf.pages.text import markdown_table

DOCS = Path(__file__).parents[1]
PAGE = DOCS / "open_questions.md"
QUESTIONS: Mapping[str, Callable[[modtf.Study], Answer]] = {
    question.__name__: question for question in (unequal, finite, withheld, noise, rules, harder)
}


def read() -> modtf.Study:
    """Return all trained models."""
    found = sorted((DOCS / "study").glob("open_questions*.zip"))
    archives = [path for path in found if not path.stem.endswith("tuning")]
    if not archives:
        raise FileNotFoundError(f"{DOCS / 'study'} has no open_questions*.zip. Run the study first.")
    return modtf.Study.read(archives)


def answers(study: modtf.Study) -> dict[str, Answer]:
    """Return the answers to the questions of which two variants have been run."""
    found = {}
    for name, question in QUESTIONS.items():
        with suppress(NothingToDraw):
            found[name] = question(study)
    return found


def looks_at_all(found: Mapping[str, Answer]) -> str:
    """Return how many comparisons of the page survive each correction, in Markdown."""
    looks = pd.concat([answer.looks.assign(question=name) for name, answer in found.items()])
    looks = looks[looks["p"].notna()]
    sure = {"uncorrected": looks["p"], "Holm, by question": looks["p_corrected"]}
    for name, method in (("BH", "bh"), ("BY", "by")):
        sure[f"{name}, all questions"] = stats.false_discovery_control(looks["p"], method=method)
    counts = pd.DataFrame({name: values <= SURE for name, values in sure.items()}).groupby(
        looks["question"], sort=False
    )
    rows = [[name, len(part), *part.sum()] for name, part in counts]
    return markdown_table(
        ["question", "comparisons", *sure], [*rows, ["all", *np.sum([row[1:] for row in rows], axis=0)]]
    )


def blocks(study: modtf.Study) -> dict[str, str]:
    """Return the answers with their tables, by question."""
    found = answers(study)
    looks = stands_on(study.cells, study.checkpoint, looks_at_all(found))
    return {"looks": looks, **{name: answer.text for name, answer in found.items()}}


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the answers as the page has them."""
    return {PAGE.name: list(blocks(study).values())}


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the picture of the page."""
    shown = finite(study).picture
    return write_pngs({shown.name: shown}, folder)


if __name__ == "__main__":
    trained = read()
    draw(trained)
    print("\n\n".join(blocks(trained).values()))
