"""The search for the learning rate of a row, on tasks that are not reported."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.labels import kind_label, variant_label
from modtf.experiments.modarch.fixed_routing import CLAMPED
from modtf.experiments.modarch.scorecard.card import name_of
from modtf.experiments.modarch.studies.scorecard import TUNED_ON, best_rate
from modtf.results import load_history
from modtf.tasks.cell import Cell
from modtf.tasks.families import IID


def search_of(trials: Mapping[float, Cell], out: str | Path) -> dict[str, Any]:
    """Return the line of a card for finished trials in the folder `out`, by learning rate.

    A loss is the geometric mean over tasks of the validation loss after the last step, with six digits, or
    None if a model diverged."""
    losses = {}
    for rate, cell in trials.items():
        history = load_history([str(Path(out, cell.folder))])
        history = history[(history["measure"] == "loss") & (history["condition"] == IID)]
        values = history.loc[history["step"] == history["step"].max(), "value"]  # also counts a warm start
        mean = float(np.exp(np.log(values).mean(skipna=False)))
        losses[f"{rate:g}"] = float(f"{mean:.6g}") if np.isfinite(mean) else None
    columns = next(iter(trials.values())).columns
    return {**{name: columns[name] for name in ("arch", "variant", "model_options")}, "losses": losses}


def rates_table(cards: Mapping[str, Mapping[str, Any]], arch: str) -> pd.DataFrame:
    """Return the validation losses of every row at every learning rate; * marks the chosen one.

    `cards` are cards by owner, as `study_of` takes them."""
    rows = []
    for whose, card in cards.items():
        for line in card["search"]:
            if line["arch"] != arch:
                continue
            options = line["model_options"] if line["variant"] == CLAMPED else ""
            name = name_of(card, whose) if whose else variant_label(line["variant"], options)
            best = best_rate(line)
            rows.append(
                {"variant": name} | {r: _shown(x, float(r) == best) for r, x in line["losses"].items()}
            )
    return pd.DataFrame(rows)


def _shown(loss: float | None, is_best: bool) -> str:
    return "diverged" if loss is None else f"{loss:.4g}{' *' * is_best}"


def rates_in_short(card: Mapping[str, Any]) -> list[str]:
    """Return the learning rates of a card in sentences."""
    tasks = f"tasks {TUNED_ON[0]} to {TUNED_ON[-1]}"
    return [
        f"{kind_label(line['arch'], 'regression')}: learning rate {best_rate(line):g} at the first step, the "
        f"best of {', '.join(line['losses'])} by validation loss on {tasks}."
        for line in card["search"]
    ]
