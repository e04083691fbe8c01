"""The parts of experiments, from the table in each experiment's folder. Reading it imports nothing."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
TABLE = "parts.toml"


def parts_of_experiments(kind: str) -> dict[str, str]:
    """Return the registered parts of a kind: name -> module that registers it.

    A table has the experiment's place in reports, `order`, and a section for each kind of part. A
    section maps modules of the folder to the names that they register, in the order of reports.

    Example:
        >>> parts_of_experiments("claim")["gt_modular_wins"]
        'modtf.experiments.modarch.claims.performance'
    """
    return {
        name: f"modtf.experiments.{folder}.{module}"
        for folder, table in _tables()
        for module, names in table.get(kind, {}).items()
        for name in names.split()
    }


@cache
def _tables() -> list[tuple[str, dict[str, Any]]]:
    """Return (folder, table) of every experiment, in their order."""
    paths = EXPERIMENTS.glob(f"*/{TABLE}")
    tables = [(path.parent.name, tomllib.loads(path.read_text("utf-8"))) for path in paths]
    return sorted(tables, key=lambda folder: folder[1]["order"])
