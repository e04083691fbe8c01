"""All figures by name, in the order of the report."""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

from modtf.checks import check_names
from modtf.families import is_one_of
from modtf.registry import Registry

if TYPE_CHECKING:  # matplotlib and pandas take seconds to import, and looking up names needs neither
    from modtf.analysis.figures.base import Choice, Pictures

Draw = Callable[[Any, "Choice"], "Pictures"]
MODULES = {
    "ranking": "analysis.figures.ranking",
    "ranking_pies": "analysis.figures.ranking",
    "paired_comparisons": "analysis.figures.pairs",
    "against_modular": "analysis.figures.pairs",
    "performance_vs_num_rules": "analysis.figures.trends",
    "performance_vs_width": "analysis.figures.trends",
    "performance_vs_seq_len": "analysis.figures.trends",
    "collapse_and_specialisation_vs_num_rules": "analysis.figures.trends",
    "collapse_and_specialisation_bars": "analysis.figures.trends",
    "measures_judged": "analysis.figures.measures_judged",
    "training_curves": "analysis.figures.trends",
    "activation": "analysis.figures.activation",
    "activation_evolution": "analysis.figures.activation",
    "misrouting": "experiments.modarch.figures",
    "corruptions_accuracy": "experiments.corruptions.figures",
    "corruptions_invariance": "experiments.corruptions.figures",
    "corruptions_conditions": "experiments.corruptions.figures",
    "novel_accuracy_vs_combinations": "experiments.vqa.figures",
    "iid_accuracy_vs_combinations": "experiments.vqa.figures",
    "libraries_bars": "experiments.vqa.figures",
    "sqoop_accuracy": "experiments.sqoop.figures",
}


def check_figure(name: str, draw: Any) -> None:
    """Raise `ValueError` unless `draw` can be called with a study and a choice."""
    try:
        inspect.signature(draw).bind("study", "choice")
    except (TypeError, ValueError) as error:  # some built-in functions have no signature
        raise ValueError(
            f"The figure {name!r} must be a function draw(study, choice) that yields pictures; "
            f"received {draw!r} ({error})."
        ) from None


FIGURES: Registry[Draw] = Registry(
    "figure", {name: f"modtf.{module}" for name, module in MODULES.items()}, check_figure
)


def register_figure(name: str, families: Sequence[str] | None = None) -> Callable[[Draw], Draw]:
    """Register a function as a figure of `study.figure(name)`, the report and `--figures` (a decorator).

    The function is called with a `Study` and a `Choice`. It yields `Picture`s, or raises `NothingToDraw`. See
    `Picture` for an example.

    Args:
        name: lower-case letters, digits and underscores.
        families: pass only models of these families, and families derived from them, to the function; by
            default all. A report without such models omits the figure.

    Raises:
        ValueError: if the name is taken, or the function does not take two arguments.
    """
    FIGURES.check_name(name)
    wanted = check_names("families", families or ())

    def add(draw: Draw) -> Draw:
        check_figure(name, draw)

        @wraps(draw)
        def of_families(study: Any, choice: "Choice") -> "Pictures":
            from modtf.analysis.figures.base import NotMeant

            meant = [name for name in study.results["arch"].unique() if is_one_of(name, wanted)]
            if not meant:
                raise NotMeant(f"it applies to {', '.join(wanted)} only")
            return draw(study.of_families(meant), choice)

        FIGURES.register(name)(draw if families is None else of_families)
        return draw

    return add
