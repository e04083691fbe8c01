"""The questions that figures answer, and one sentence on what each figure shows."""

from collections.abc import Mapping, Sequence
from typing import Any

from modtf.analysis.report.page import Links, Section

#: question -> figure -> what it shows; the first picture of the first two questions stands at the top
QUESTIONS: Mapping[str, Mapping[str, str]] = {
    "Does it help?": {
        "performance_vs_num_rules": "The loss or error of each variant. Lower is better.",
        "ranking": "The share of tasks on which each variant does best.",
        "ranking_pies": "The share of all tasks on which each variant does best.",
        "paired_comparisons": "The loss or error of a variant as a multiple of that of the next less "
        "informed variant, on the same task and seed.",
        "against_modular": "How each variant differs from `modular` on the same task and seed.",
        "misrouting": "The loss of models with fixed routing against how far the routing is from the rules.",
        "corruptions_accuracy": "The accuracy of each variant under single and composed corruptions.",
        "corruptions_conditions": "The accuracy of each variant under every condition.",
        "libraries_bars": "The accuracy of each library of modules.",
    },
    "Does it specialise?": {
        "collapse_and_specialisation_bars": "How evenly each variant uses its modules, and how well the "
        "modules divide the rules among themselves. Compare with random routing.",
        "activation": "The probability of each module given each rule, for one model of each variant. "
        "A diagonal is perfect specialisation.",
        "measures_judged": "Which measures rank trained routers as alignment does.",
        "corruptions_invariance": "How much the activity of units changes under corruptions.",
    },
    "How does it change with size?": {
        "collapse_and_specialisation_vs_num_rules": "The same measures against the number of rules.",
        "performance_vs_width": "The loss or error of each variant against the width of the network.",
        "performance_vs_seq_len": "The loss or error of each variant at other lengths than in training, "
        "which the dotted line marks.",
        "novel_accuracy_vs_combinations": "The accuracy on new combinations against the number of "
        "combinations in training.",
        "iid_accuracy_vs_combinations": "The accuracy on known combinations against the number of "
        "combinations in training.",
    },
    "How does it change with training?": {
        "training_curves": "The validation loss or error of each variant against the training step.",
        "activation_evolution": "The probability of each module given each rule during training.",
    },
}
OTHER = "More figures"
#: headings that the names of figures do not give
HEADINGS = {
    "performance_vs_num_rules": "Performance by variant and number of rules",  # bars if there is one
    "collapse_and_specialisation_bars": "Collapse and specialisation by variant",
}


def question_sections(drawn: Mapping[str, Sequence[Any]]) -> tuple[list[Section], list[Section]]:
    """Return the figures that stand at the top, and a section for each question and for all other figures.

    Args:
        drawn: the images of each figure, by its name.
    """
    top: list[Section] = []
    questions: list[Section] = []
    others = {name: "" for name in drawn if not any(name in figures for figures in QUESTIONS.values())}
    for place, (question, figures) in enumerate([*QUESTIONS.items(), (OTHER, others)]):
        parts = [Section(figure_title(name), [words] * bool(words), content=drawn[name])
                 for name, words in figures.items() if name in drawn]  # fmt: skip
        above: list[Links] = []
        if place < 2 and parts:
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
