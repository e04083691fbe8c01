"""All figures by name, in the order of the report."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from modtf.registry import Registry

if TYPE_CHECKING:  # matplotlib and pandas take seconds, and names are asked for without drawing
    from modtf.analysis.figures.base import Choice, Pictures
    from modtf.analysis.study import Study

Draw = Callable[["Study", "Choice"], "Pictures"]
NAMES = (
    "ranking",
    "ranking_pies",
    "paired_comparisons",
    "against_modular",
    "performance_vs_num_rules",
    "performance_vs_width",
    "performance_vs_seq_len",
    "collapse_and_specialisation_vs_num_rules",
    "collapse_and_specialisation_bars",
    "measures_judged",
    "training_curves",
    "activation",
    "activation_evolution",
)


def check_figure(name: str, draw: Any) -> None:
    """Raises `ValueError` unless `draw` can be called with a study and a choice."""
    try:
        inspect.signature(draw).bind("study", "choice")
    except (TypeError, ValueError) as error:  # some of Python's own have no signature
        raise ValueError(
            f"The figure {name!r} must be a function draw(study, choice) that yields pictures; "
            f"received {draw!r} ({error})."
        ) from None


modules = {name: f"modtf.analysis.figures.{name}" for name in NAMES}
FIGURES: Registry[Draw] = Registry("figure", modules, check_figure)


def register_figure(name: str) -> Callable[[Draw], Draw]:
    """A decorator that makes a function a figure: of `study.figure(name)`, of the report, of `--figures`.

    The function is called with a `Study` and a `Choice` and yields `Picture`s, or raises `NothingToDraw`;
    `Picture` shows one.

    Raises:
        ValueError: if the name is taken, or the function does not take two arguments.
    """
    return FIGURES.register(name)
