"""All figures by name, in the order of the report."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from modtf.base.checks import check_choice, check_names
from modtf.base.registry import Registry
from modtf.tasks.families import is_one_of

if TYPE_CHECKING:  # matplotlib and pandas take seconds to import, and looking up names needs neither
    from modtf.pages.pictures import Pictures


@dataclass(frozen=True)
class Choice:
    """The cells and the member that the activation figures show."""

    data_seed: int | None = None  # None: the first
    seed: int | None = None
    num_rules: int | None = None  # for the evolution; None: the middle one
    width: int | None = None  # None: all widths


Draw = Callable[[Any, Choice], "Pictures"]
MODULES = {
    "performance_vs_num_rules": "trends",
    "ranking": "comparisons",
    "ranking_pies": "comparisons",
    "paired_comparisons": "comparisons",
    "against_modular": "comparisons",
    "collapse_and_specialisation_vs_num_rules": "trends",
    "performance_vs_width": "trends",
    "performance_vs_seq_len": "trends",
    "collapse_and_specialisation_bars": "trends",
    "activation": "activation",
    "measures_judged": "measures_judged",
    "training_curves": "trends",
    "activation_evolution": "activation",
}
#: the questions that figures answer, in the order of the report
HELPS, SPECIALISES, SIZE, TRAINING, OTHER = QUESTIONS = (
    "Does it help?",
    "Does it specialise?",
    "How does it change with size?",
    "How does it change with training?",
    "More figures",
)
#: name of an imported figure -> its question, and one sentence on what it shows
DESCRIPTIONS: dict[str, tuple[str, str]] = {}


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
    "figure", {name: f"modtf.analysis.figures.{module}" for name, module in MODULES.items()}, check_figure
)


def register_figure(
    name: str, families: Sequence[str] | None = None, *, question: str = OTHER, shows: str = ""
) -> Callable[[Draw], Draw]:
    """Register a function as a figure of `study.figure(name)`, the report and `--figures` (a decorator).

    The function is called with a `Study` and a `Choice`. It yields `Picture`s, or raises `NothingToDraw`. See
    `Picture` for an example.

    Args:
        name: lower-case letters, digits and underscores.
        families: pass only models of these families, and families derived from them, to the function; by
            default all. A report without such models omits the figure.
        question: the part of the report where it stands, one of `QUESTIONS`.
        shows: one sentence on what the figure shows.

    Raises:
        ValueError: if the name is taken, or the function does not take two arguments.
    """
    FIGURES.check_name(name)
    wanted = check_names("families", families or ())
    check_choice("question", question, QUESTIONS)

    def add(draw: Draw) -> Draw:
        check_figure(name, draw)

        @wraps(draw)
        def draw_part(study: Any, choice: "Choice") -> "Pictures":
            from modtf.pages.pictures import NotMeant

            meant = [name for name in study.results["arch"].unique() if is_one_of(name, wanted)]
            if not meant:
                raise NotMeant(f"it applies to {', '.join(wanted)} only")
            return draw(study.part(arch=meant), choice)

        FIGURES.register(name)(draw if families is None else draw_part)
        DESCRIPTIONS[name] = (question, shows)
        return draw

    return add
