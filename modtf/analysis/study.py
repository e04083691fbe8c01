"""What figures and claims look at: one protocol per architecture and setting, one checkpoint."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from modtf.results.cells import CellFolder
from modtf.analysis.performance import performance_rows
from modtf.analysis.resampling import Bootstrap
from modtf.results.schema import CHECKPOINTS
from modtf.task import check_choice


@dataclass(frozen=True)
class Study:
    """Results that may be compared with each other."""

    results: pd.DataFrame  # of one checkpoint
    history: pd.DataFrame
    checkpoint: str = "last"
    cells: Sequence[CellFolder] = ()  # for the activation matrices
    bootstrap: Bootstrap = field(default_factory=Bootstrap)

    def __post_init__(self) -> None:
        check_choice("checkpoint", self.checkpoint, CHECKPOINTS)

    @property
    def performance(self) -> pd.DataFrame:
        """Performance rows in the two headline conditions."""
        return performance_rows(self.results)


def select(frame: pd.DataFrame, protocols: Sequence[str] = (), checkpoint: str | None = None) -> pd.DataFrame:
    """The rows of the given protocols (all if none is given) and checkpoint.

    Raises:
        ValueError: if no cell followed a protocol, or an architecture and setting was trained in more than
            one way, so that its models cannot be compared.
    """
    for protocol in protocols:
        check_choice("protocol", protocol, sorted(frame["protocol"].unique()) or ["(none)"])
    if protocols:
        frame = frame[frame["protocol"].isin(protocols)]
    for kind, rows in frame.groupby(["arch", "setting", "search"]):
        found = rows.groupby("protocol")["folder"].agg(["nunique", "first"])
        if len(found) > 1:
            listing = "; ".join(
                f"{p}: {r['nunique']} cell(s), such as {r['first']}" for p, r in found.iterrows()
            )
            name = " ".join(str(part) for part in kind if part)
            raise ValueError(
                f"The {name} cells were trained or evaluated in {len(found)} different ways, which cannot be "
                f"compared ({listing}). Choose one with --protocol, or give another --results."
            )
    return frame if checkpoint is None else frame[frame["checkpoint"] == checkpoint]
