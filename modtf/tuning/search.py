"""A search: what is tuned, between which values, and by which strategy."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from modtf.cell import Cell
from modtf.files import write_text
from modtf.space import Axis, parse_axis
from modtf.task import science_hash
from modtf.version import __version__

SEARCHES = "searches"  # in the folder of a tuning, whose other folders are the cells of trials
DEFINITION = "search.json"
LEARNING_RATE = "learning_rate"
NAMESPACES = ("router", "model")  # of options that can be tuned

EPOCHS = "tuner/epochs"  # how KerasTuner's Hyperband says how long to train ...
LONGEST = 9  # ... and what it calls the whole length


@dataclass(frozen=True)
class Search:
    """One variant's search; every trial of it is a cell.

    Example:
        >>> base = Cell(Task(), 32, "modular", ((0, 0),))
        >>> search = Search(base, {"learning_rate": Choice((1e-4, 1e-3))}, "grid")
        >>> search.cell_of({"learning_rate": 1e-3}).protocol.training.learning_rate
        0.001
    """

    base: Cell  # where a trial says nothing else
    space: Mapping[str, Axis]  # "learning_rate", "router.NAME", "model.NAME" -> what is tried
    oracle: str
    seed: int = 1  # of the oracle

    def cell_of(self, values: Mapping[str, Any]) -> Cell:
        """The cell of a trial.

        Args:
            values: of all that is tuned; with Hyperband also how long to train.
        """
        cell = with_values(self.base, self.values_of(values))
        epochs = values.get(EPOCHS, LONGEST)
        if epochs == LONGEST:
            return cell
        training = cell.protocol.training
        steps = max(1, training.steps * epochs // LONGEST)
        steps -= steps % min(steps, training.evaluations)  # evaluations stay evenly spaced
        return replace(cell, protocol=cell.protocol.replace(steps=steps))

    def values_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What is tuned, of what KerasTuner says of a trial."""
        return {path: axis.take(values[path]) for path, axis in self.space.items()}

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.base.label}_{self.oracle}-{science_hash(self.to_dict(), digest_size=4)}"

    def folder(self, out: str | Path) -> Path:
        """Where its state is, in the folder of a tuning."""
        return Path(out, SEARCHES, self.name)

    def to_dict(self) -> dict[str, Any]:
        """What defines the search, JSON-able."""
        return {
            "base": self.base.to_dict(),
            "space": {path: str(axis) for path, axis in self.space.items()},
            "oracle": self.oracle,
            "seed": self.seed,
        }

    @classmethod
    def from_dict(cls, config: Mapping[str, Any]) -> "Search":
        """The search that `to_dict` described."""
        space = {path: parse_axis(text) for path, text in config["space"].items()}
        return cls(Cell.from_dict(config["base"]), space, config["oracle"], config["seed"])

    def write(self, out: str | Path) -> None:
        """Writes what defines it into its folder."""
        record = {**self.to_dict(), "version": __version__}
        write_text(self.folder(out) / DEFINITION, json.dumps(record, indent=1))


def find_searches(out: str | Path) -> dict[Path, Search]:
    """The searches in the folder of a tuning, by their own folders.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if the definition of one cannot be read.
    """
    found = {}
    for path in sorted(Path(out, SEARCHES).glob(f"*/{DEFINITION}")):
        try:
            found[path.parent] = Search.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} describes no search of this version ({error}). Remove its folder and tune again."
            ) from error
    if not found:
        raise FileNotFoundError(
            f"{str(out)!r} holds no search: no {SEARCHES}/*/{DEFINITION}. Give the folder that was --out of "
            "launch/tune.py."
        )
    return found


def with_values(cell: Cell, values: Mapping[str, Any]) -> Cell:
    """The cell with other values of "learning_rate", "router.NAME" and "model.NAME"."""
    options = {name: dict(getattr(cell, name)) for name in NAMESPACES}
    protocol = cell.protocol
    for path, value in values.items():
        namespace, dot, name = path.partition(".")
        if dot:
            options[namespace][name] = value
        else:
            protocol = protocol.replace(**{path: value})
    return replace(cell, protocol=protocol, router=options["router"], model=options["model"])


def in_words(values: Mapping[str, Any]) -> str:
    """Values as a reader sees them: "learning_rate=0.001, temperature=0.5"."""
    shown = {path.rpartition(".")[2]: f"{v:g}" if isinstance(v, float) else v for path, v in values.items()}
    return ", ".join(f"{name}={value}" for name, value in shown.items())
