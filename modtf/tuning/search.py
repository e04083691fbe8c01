"""A search: the options to tune, their values, and the strategy."""

import itertools
import json
import math
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modtf.base.files import read_text, write_text
from modtf.base.space import Axis, Range, Values, parse_axis, parse_named
from modtf.base.version import __version__
from modtf.base.words import plural
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.studies.estimate import parameters_of
from modtf.studies.grid import OPTIONS, options_known
from modtf.tasks.cell import Cell
from modtf.tasks.task import science_hash
from modtf.training.arithmetic import epochs_of

SEARCHES = "searches"  # in a tuning's folder; its other folders are the cells of trials
DEFINITION = "search.json"
TRIALS = "trials.json"  # the trials' settings, in order
LEARNING_RATE = "learning_rate"

EPOCHS = "tuner/epochs"  # KerasTuner's Hyperband gives the length of training under this name ...
LONGEST = 9  # ... in units of which this is the whole length

SPREAD = 10_007  # multiplies the seed: draws count up from it, and neighbouring seeds would share draws
REPEATS = 20  # repeated draws in a row, after which nothing new is expected


@dataclass(frozen=True)
class Search:
    """One variant's search. Every trial of it is a cell.

    Example:
        >>> base = Cell(Task(), 32, "modular", ((0, 0),))
        >>> search = Search(base, {"learning_rate": Values((1e-4, 1e-3))}, "grid")
        >>> search.cell_of({"learning_rate": 1e-3}).protocol.training.learning_rate
        0.001
    """

    base: Cell  # sets everything that a trial does not
    space: Mapping[str, Axis]  # "learning_rate", "router.NAME", "model.NAME" -> values to try
    oracle: str
    seed: int = 1  # of the oracle

    def cell_of(self, values: Mapping[str, Any]) -> Cell:
        """Return the cell of a trial from its tuned values. With Hyperband these include the length of
        training."""
        cell = with_values(self.base, self.values_of(values))
        epochs = values.get(EPOCHS, LONGEST)
        if epochs == LONGEST:
            return cell
        training = cell.protocol.training
        steps = max(1, training.steps * epochs // LONGEST)
        steps -= steps % min(steps, epochs_of(training)[0])  # evaluations stay evenly spaced
        return replace(cell, protocol=cell.protocol.replace(steps=steps))

    def values_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tuned values among KerasTuner's values of a trial."""
        between = self.half_steps.values()
        return {
            path: values[path]
            if path == LEARNING_RATE and values[path] in between
            else axis.take(values[path])
            for path, axis in self.space.items()
        }

    @property
    def half_steps(self) -> dict[float, float]:
        """Return the rate half a step below every learning rate of a grid, on a logarithmic scale."""
        axis = self.space.get(LEARNING_RATE)
        if self.oracle != "grid" or not isinstance(axis, Values) or len(axis.values) < 2:
            return {}
        rates = sorted(axis.values)
        lower = [rates[0] ** 2 / rates[1], *rates]
        return {rate: float(f"{math.sqrt(rate * low):.4g}") for rate, low in zip(rates, lower, strict=False)}

    def edge_note(self, values: Mapping[str, Any]) -> str:
        """Return a remark if tuned values are at the edge of their range, where better ones may lie beyond;
        "" if none is."""
        names = [path.rpartition(".")[2] for path, axis in self.space.items() if axis.is_edge(values[path])]
        edge = f"{' and '.join(names)} at the edge of {'its range' if len(names) == 1 else 'their ranges'}"
        return f"{edge}; tune again with a wider --space" if names else ""

    @property
    def name(self) -> str:
        """Return the name of the search's folder."""
        return f"{self.base.part_of_path}_{self.oracle}-{science_hash(self.to_dict(), digest_size=4)}"

    def folder(self, out: str | Path) -> Path:
        """Return the folder of the search's state, in the folder of a tuning."""
        return Path(out, SEARCHES, self.name)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition of the search, JSON-able."""
        return {
            "base": self.base.to_dict(),
            "space": {path: str(axis) for path, axis in self.space.items()},
            "oracle": self.oracle,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Search":
        """Return the search of a dict from `to_dict`."""
        space = {path: parse_axis(text) for path, text in config["space"].items()}
        return cls(Cell.from_dict(config["base"]), space, config["oracle"], config["seed"])

    def write(self, out: str | Path, settings: Sequence[Mapping[str, Any]]) -> None:
        """Write the search's definition and the settings of its trials into its folder."""
        folder = self.folder(out)
        if not (folder / DEFINITION).exists():
            record = {**self.to_dict(), "version": __version__}
            write_text(folder / DEFINITION, json.dumps(record, indent=1))
        write_text(folder / TRIALS, json.dumps(list(settings)))

    def settings(self, out: str | Path) -> list[dict[str, Any]]:
        """Return the settings of the trials in order, none before the search begins. Raise `ValueError` if
        the file is damaged."""
        path = self.folder(out) / TRIALS
        try:
            settings = json.loads(read_text(path)) if path.exists() else []
            for values in settings:
                self.values_of(values)
            return settings
        except (KeyError, StopIteration, TypeError, ValueError) as error:
            raise unreadable(path, error) from error

    def list_settings(self, limit: int | None) -> list[dict[str, Any]]:
        """Return the settings of a grid or a random search.

        A whole grid is in order, a part of one in random order, so that every option varies. A larger limit
        continues the list of a smaller one, except for a whole grid.
        """
        if self.oracle == "grid":
            rows = list(itertools.product(*(axis.ends for axis in self.space.values())))
            if limit is not None and limit < len(rows):
                random.Random(self.seed).shuffle(rows)
            return [dict(zip(self.space, row, strict=True)) for row in rows[:limit]]
        settings: list[dict[str, Any]] = []
        seeds, repeats = itertools.count(SPREAD * self.seed), 0
        while len(settings) < (limit or 0) and repeats <= REPEATS:
            drawn = {
                path: _at(axis, random.Random(next(seeds)).random()) for path, axis in self.space.items()
            }
            repeats = repeats + 1 if drawn in settings else 0
            settings += [drawn] if not repeats else []
        return settings


@dataclass(frozen=True)
class Best:
    """The best trial of a search."""

    search: Search
    values: Mapping[str, Any]  # all tuned values, and always the learning rate
    objective: float
    trials: int  # the number of finished trials
    others: int = 0  # the number of trials that failed or have not finished
    ties: int = 0  # the number of other cells with the same objective

    def __str__(self) -> str:
        notes = {"failed or not finished": self.others, "with the same score": self.ties}
        apart = "".join(f"; {plural(number, 'other')} {words}" for words, number in notes.items() if number)
        edge = f"; {note}" if (note := self.search.edge_note(self.values)) else ""
        trials = f"best of {plural(self.trials, 'trial')}{apart}"
        return f"{in_words(self.values)} ({trials}, {self.search.name}){edge}"


def begin_lists(searches: Iterable[Search], out: str | Path, limit: int | None) -> list[Cell]:
    """Write grids or random searches to disk. Return the cells of their trials, at most `limit` per search.

    Existing trials stay. Trials that were added to a search come last, so that a shard of the others, which
    goes by their places, stays the same."""
    first, later = dict[str, Cell](), dict[str, Cell]()
    for search in searches:
        known = search.settings(out)
        number = limit and max(limit, len(known))
        listed = search.list_settings(number)
        settings = [*known, *(values for values in listed if values not in known)][:number]
        search.write(out, settings)
        for values in settings:
            cell = search.cell_of(values)
            (first if values in listed else later)[cell.folder] = cell
    return list({**first, **later}.values())


def _at(axis: Axis, share: float) -> Any:
    """Return the value at a share, from 0 to below 1, of an axis."""
    if isinstance(axis, Values):
        return axis.values[int(share * len(axis.values))]
    low, high = axis.low, axis.high + axis.is_whole
    return axis.take(low * (high / low) ** share if axis.log else low + share * (high - low))


def find_searches(out: str | Path) -> list[Search]:
    """Return the searches in the folder of a tuning. Raise `FileNotFoundError` if there is none."""
    searches = []
    for path in sorted(Path(out, SEARCHES).glob(f"*/{DEFINITION}")):
        try:
            searches.append(Search.from_dict(json.loads(read_text(path))))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} does not describe a search of this version ({error}). Remove its folder and tune "
                "again."
            ) from error
    if not searches:
        raise FileNotFoundError(
            f"{str(out)!r} holds no search: the files {SEARCHES}/*/{DEFINITION} are missing. Give the "
            "folder that was --out of modtf tune."
        )
    return searches


def unreadable(path: Path, error: Exception) -> ValueError:
    """Return the error to raise for an invalid file of a search."""
    return ValueError(
        f"{path} is not a file that tuning wrote ({error!r}). Remove the folder {path.parent} and tune "
        "again. Finished trials are not trained again."
    )


def known_options(cell: Cell, namespace: str) -> Mapping[str, Any]:
    """Return the options of a cell's router or network, with defaults; see `options_known`."""
    return options_known(namespace, cell.task.family, cell.variant, cell.architecture)


def with_values(cell: Cell, values: Mapping[str, Any]) -> Cell:
    """Return the cell with other values of "learning_rate", "router.NAME" and "model.NAME"."""
    options: dict[str, Any] = {name: dict(getattr(cell, name)) for name in OPTIONS}
    protocol = cell.protocol
    for path, value in values.items():
        namespace, dot, name = path.partition(".")
        if dot:
            options[namespace][name] = value
        else:
            protocol = protocol.replace(**{path: value})
    return replace(cell, protocol=protocol, **options)


def in_words(values: Mapping[str, Any]) -> str:
    """Return values for readers: "learning_rate=0.001, temperature=0.5"."""
    shown = {path.rpartition(".")[2]: f"{v:g}" if isinstance(v, float) else v for path, v in values.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


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
        number = math.prod(_size(axis) for axis in space.values())
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


def _size(axis: Axis) -> int:
    """Return the number of values of an axis; `DRAWN` of a range of real numbers, which has enough."""
    if isinstance(axis, Values):
        return len(axis.values)
    return int(axis.high - axis.low) + 1 if axis.is_whole else DRAWN
