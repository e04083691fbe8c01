"""The values of a variant's search: the learning rate, and the options that its router declares."""

import math
from collections.abc import Collection, Mapping

from modtf.base.space import Axis, Range, Values, parse_axis, parse_named
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.studies.estimate import parameters_of
from modtf.studies.point import OPTIONS
from modtf.tasks.cell import Cell
from modtf.tuning.search import LEARNING_RATE, LONGEST, Search, known_options, with_values

DRAWN = 17  # settings that Hyperband's first rounds need: 9 + 5 + 3
LEARNING_RATES = parse_axis("0.00001:0.01:log")


def axes_given(texts: Collection[str], cells: Collection[Cell]) -> dict[str, Axis]:
    """Parse `--space`: PATH=VALUES for each option of the cells that is not set. Raise `ValueError` for any
    other text, a repeated path, an invalid learning rate, and an unknown or set option."""
    axes: dict[str, Axis] = {}
    for text in texts:
        try:
            path, axis = parse_named(text)
        except ValueError as error:
            raise ValueError(f"--space {text}: {error}") from error
        if path in axes:
            raise ValueError(f"--space {text}: {path} is given twice.")
        namespace, _, name = path.partition(".")
        if path == LEARNING_RATE:
            if not all(isinstance(rate, int | float) and 0 < rate <= 1 for rate in axis.ends):
                raise ValueError(
                    f"--space {text}: a learning rate is not valid; expected numbers above 0, at most 1."
                )
        elif namespace in OPTIONS and name:
            _check_option(path, cells)
        else:
            raise ValueError(
                f"--space {text}: {path!r} cannot be tuned; expected {LEARNING_RATE}, router.NAME, "
                "model.NAME or trainer.NAME."
            )
        axes[path] = axis
    return axes


def _check_option(path: str, cells: Collection[Cell]) -> None:
    """Raise `ValueError` if no cell knows an option, or one has it set."""
    namespace, _, name = path.partition(".")
    if any(name in getattr(cell, namespace) for cell in cells):
        raise ValueError(f"--space {path} and --set {path} cannot both be given. Leave one out.")
    known = dict.fromkeys(known for cell in cells for known in known_options(cell, namespace))
    if name not in known:
        variants = " and ".join(cell.variant for cell in cells)
        raise ValueError(
            f"--space {path} is not known. The options of {variants}: {', '.join(known) or 'none'}."
        )


def space_of(base: Cell, axes: Mapping[str, Axis], fix_learning_rate: bool = False) -> dict[str, Axis]:
    """Return the search space of a variant; options that its cell sets are fixed.

    Chosen options go to the variants that know them. Raise `ValueError` if a model with a chosen value
    cannot be built, or its trainer rejects the value.
    """
    space = {} if fix_learning_rate else {LEARNING_RATE: LEARNING_RATES}
    router = str(base.task.family.variant(base.variant).router)
    for text in () if router in MODELS else ROUTERS[router].tunable:  # your own model declares none
        name, axis = parse_named(text)
        if name not in base.router and (allowed := _allowed(base, f"router.{name}", axis)):
            space[f"router.{name}"] = allowed
    for path, axis in axes.items():
        namespace, dot, name = path.partition(".")
        if not dot or name in known_options(base, namespace):
            for value in axis.ends if dot else ():
                _check_trial(with_values(base, {path: value}), namespace)
            space[path] = axis
    return space


def _check_trial(cell: Cell, namespace: str) -> None:
    """Raise `ValueError` if the trainer, or the model, rejects its options."""
    if namespace == "trainer":
        from modtf.training.trainer import trainer_of  # TensorFlow takes time

        trainer_of(cell)
    else:
        parameters_of(cell)


def search_of(base: Cell, space: Mapping[str, Axis], oracle: str, points: int, seed: int) -> Search:
    """Return a search in which a grid takes `points` values of a range. Raise `ValueError` if there is
    nothing to tune, or too little for Hyperband."""
    if not space:
        raise ValueError(
            f"{base.variant!r} has nothing to tune. Give --space, or do not fix the learning rate."
        )
    if oracle == "grid":
        space = {path: axis.spread(points) for path, axis in space.items()}
    if oracle == "hyperband":
        number = math.prod(len(axis.ends) if isinstance(axis, Values) else DRAWN for axis in space.values())
        if number < DRAWN:
            raise ValueError(
                f"--oracle={oracle} draws {DRAWN} settings, but the space of {base.variant!r} has only "
                f"{number}. Give a range, low:high, or choose --oracle=grid."
            )
        if base.protocol.training.steps < LONGEST:
            raise ValueError(
                f"--oracle={oracle} needs at least {LONGEST} training steps, because it first trains for a "
                "part of them. Give a larger --steps."
            )
    return Search(base, space, oracle, seed)


def _allowed(base: Cell, path: str, axis: Axis) -> Axis | None:
    """Return the part of an axis that the router accepts. A range is accepted as a whole or not at all."""
    kept = []
    for value in axis.ends:
        try:
            parameters_of(with_values(base, {path: value}))
            kept.append(value)
        except ValueError:
            continue
    if isinstance(axis, Range):
        return axis if len(kept) == len(axis.ends) else None
    return Values(tuple(kept)) if len(kept) > 1 else None
