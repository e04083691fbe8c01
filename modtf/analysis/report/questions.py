"""The parts of a report's page that hold figures: one for each question."""

from collections.abc import Mapping, Sequence
from typing import Any

from modtf.analysis.figures.registry import DESCRIPTIONS, QUESTIONS
from modtf.pages.page import Links, Section

#: headings that the names of figures do not give
HEADINGS = {
    "performance_vs_num_rules": "Performance by variant and number of rules",  # bars if there is one
    "collapse_and_specialisation_bars": "Collapse and specialisation by variant",
    "corruptions_examples": "Example images under corruptions",
    "questions_examples": "Example images with questions",
}


def question_sections(drawn: Mapping[str, Sequence[Any]]) -> tuple[list[Section], list[Section]]:
    """Return the figures that stand at the top, and a section for each question and for all other figures.

    Args:
        drawn: the images of each figure, by its name.
    """
    top: list[Section] = []
    questions: list[Section] = []
    for place, question in enumerate(QUESTIONS):
        figures = {name: DESCRIPTIONS[name][1] for name in drawn if DESCRIPTIONS[name][0] == question}
        parts = [Section(figure_title(name), [words] * bool(words), content=drawn[name])
                 for name, words in figures.items()]  # fmt: skip
        above: list[Links] = []
        if place < 1 and parts:
            first, *rest = parts
            picture, *more = first.content
            top.append(Section(first.title, first.texts, content=[picture]))
            above = [Links("At the top of this page:", [(f"#{first.anchor}", first.title)])]
            parts = [Section(f"{first.title}, in detail", first.texts, content=more)] * bool(more) + rest
        if parts or above:
            questions.append(Section(question, content=above, parts=parts))
    return top, questions


def figure_title(name: str) -> str:
    """Return the heading of a registered figure."""
    if name in HEADINGS:
        return HEADINGS[name]
    words = name.replace("_", " ").replace(" vs ", " against ").capitalize()
    return words.replace("num rules", "number of rules").replace("seq len", "sequence length")
