"""A card: the results of models on the tasks of a version, as JSON, a line for every model and search."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from modtf.analysis.labels import kind_label, variant_label
from modtf.analysis.rows import OUT, performance_rows
from modtf.analysis.study import Study
from modtf.base.files import read_text, write_text
from modtf.base.version import __version__
from modtf.experiments.modarch.fixed_routing import CLAMPED
from modtf.experiments.modarch.studies.scorecard import (
    NUM_RULES,
    ORACLE,
    WIDTH,
    Frozen,
    Search,
    best_rate,
    key_of,
)
from modtf.results import load_history, load_results
from modtf.results.schema import COLUMNS, conform
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, IID

CHECKPOINT = "last"
MODEL = ["arch", "variant", "model_options", "data_seed", "num_modules", "num_parameters"]
OURS = "this run"
PARTS = ("search", "rows")  # lists
LOSS, LOSS_OUT = "loss", "loss_out"  # in and out of distribution


def search_of(frozen: Frozen, trials: Mapping[float, Cell], out: str | Path) -> dict[str, Any]:
    """Return the line of a card for finished trials in the folder `out`, by learning rate.

    A loss is that of the version's tasks joined, of the validation after the last step, with six digits, or
    None if a model diverged."""
    losses = {}
    for rate, cell in trials.items():
        history = load_history([str(Path(out, cell.folder))])
        history = history[(history["measure"] == "loss") & (history["condition"] == IID)]
        values = history.loc[history["step"] == history["step"].max(), "value"]  # also counts a warm start
        joined = frozen.join(values) if np.isfinite(values).all() else np.inf
        losses[f"{rate:g}"] = float(f"{joined:.6g}") if np.isfinite(joined) else None
    columns = next(iter(trials.values())).columns
    return {**{name: columns[name] for name in ("arch", "variant", "model_options")}, "losses": losses}


def rates_table(cards: Mapping[str, Mapping[str, Any]], arch: str, frozen: Frozen) -> pd.DataFrame:
    """Return the validation losses of every row at every learning rate; * marks the chosen one.

    `cards` are cards by owner, as `study_of` takes them."""
    rows = []
    for owner, card in cards.items():
        for line in card["search"]:
            if line["arch"] != arch:
                continue
            has_options = line["variant"] == CLAMPED or frozen.names_options
            options = line["model_options"] if has_options else ""
            name = name_of(card, owner) if owner else variant_label(line["variant"], options)
            best = best_rate(line)
            rows.append(
                {"variant": name} | {r: _shown(x, float(r) == best) for r, x in line["losses"].items()}
            )
    return pd.DataFrame(rows)


def _shown(loss: float | None, is_best: bool) -> str:
    return "diverged" if loss is None else f"{loss:.4g}{' *' * is_best}"


def rates_in_short(card: Mapping[str, Any], frozen: Frozen) -> list[str]:
    """Return the learning rates of a card in sentences."""
    tasks = f"tasks {frozen.tuned_on[0]} to {frozen.tuned_on[-1]}"
    return [
        f"{kind_label(line['arch'], frozen.setting)}: learning rate {best_rate(line):g} at the first step, "
        f"the best of {', '.join(line['losses'])} by validation loss on {tasks}."
        for line in card["search"]
    ]


def card_of(frozen: Frozen, cells: Sequence[Cell], search: Search, out: str | Path) -> dict[str, Any]:
    """Return the card of finished cells in the folder `out`, with six digits of every number."""
    head = {"version": frozen.version, "tasks": frozen.hash, "modtf": __version__, "checkpoint": CHECKPOINT}
    return {**head, "search": list(search), "rows": _records(frozen, cells, out) if cells else []}


def _records(frozen: Frozen, cells: Sequence[Cell], out: str | Path) -> list[dict[str, Any]]:
    frame = load_results([str(Path(out, cell.folder)) for cell in cells])
    frame = frame[frame["checkpoint"] == CHECKPOINT].astype({"measure": str})
    judged = performance_rows(frame)
    measured = frame[frame["measure"].isin(frozen.measures) & (frame["condition"].astype(str) == IID)]
    names = judged["distribution"].astype(str).map({OUT: LOSS_OUT}).fillna(LOSS)
    rows = pd.concat([judged.assign(measure=names), measured])
    rows = rows.astype(dict.fromkeys(MODEL[:3], str))
    wide = rows.groupby([*MODEL, "measure"])["value"].mean().unstack()  # over routed layers
    wide = wide.reindex(columns=[LOSS, LOSS_OUT, *frozen.measures]).map(lambda value: float(f"{value:.6g}"))
    records: list[dict[str, Any]] = (
        wide.astype(object).where(wide.notna(), None).reset_index().to_dict("records")
    )
    return records


def write_card(path: str | Path, card: Mapping[str, Any]) -> None:
    """Write a card, a line for every search and model."""
    text = json.dumps({**card, **{part: [] for part in PARTS if part in card}}, indent=1)
    for part in PARTS:
        lines = ",\n".join(f"  {json.dumps(line)}" for line in card.get(part, ()))
        text = text.replace(f'"{part}": []', f'"{part}": [\n{lines}\n ]')
    write_text(path, text + "\n")


def read_card(path: Any, frozen: Frozen, owner: str = "") -> dict[str, Any]:
    """Read the file of `write_card`.

    Raises `ValueError` if it is not a card, or has another version or other tasks."""
    try:
        card = json.loads(read_text(path))
        versions = card["version"], card["tasks"], card["modtf"]
        is_comparable = versions[:2] == (frozen.version, frozen.hash)
        if is_comparable:
            rates = {key_of(line): best_rate(line) for line in card["search"]}
            unknown = {key_of(row) for row in card["rows"]} - set(rates)
            if unknown:
                raise ValueError(f"no learning rate of {min(unknown)}")
            rows_of(card, frozen, owner)
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"{path} is not a scorecard ({error!r}). Give the JSON file that modtf scorecard wrote."
        ) from error
    if not is_comparable:
        raise ValueError(
            f"{path} has version {versions[0]} with the tasks {versions[1]}; expected {frozen.version} with "
            f"the tasks {frozen.hash}, because versions cannot be compared. Train its model with this "
            f"modtf, or yours with modtf {versions[2]}."
        )
    return card


def reference(frozen: Frozen) -> dict[str, Any]:
    """Return the reference results that the package ships."""
    return read_card(frozen.shipped(), frozen)


def name_of(card: Mapping[str, Any], owner: str) -> str:
    """Return the name of a card's model: that of its cell with most options, and its owner."""
    options = max((str(row["model_options"]) for row in card["rows"]), key=len)
    return f"{variant_label(card['rows'][0]['variant'], options)} ({owner})"


def rows_of(card: Mapping[str, Any], frozen: Frozen, owner: str = "") -> pd.DataFrame:
    """Return a card as results that `modtf.Study` takes.

    Args:
        owner: the name of the model in all rows; without it they are the reference results.

    Raises:
        KeyError, TypeError, ValueError: if the card holds anything else.
    """
    wide = pd.DataFrame(card["rows"]).astype(dict.fromkeys(MODEL[:3], str))
    if owner:
        wide = wide.assign(variant=name_of(card, owner))
    elif frozen.names_options:
        wide["variant"] = list(map(variant_label, wide["variant"], wide["model_options"]))
    wide["model_options"] = wide["model_options"].where(wide["variant"] == CLAMPED, "")
    long = wide.melt(MODEL, [LOSS, LOSS_OUT, *frozen.measures], "measure")
    is_loss = long["measure"].isin([LOSS, LOSS_OUT])
    long = long[is_loss | long["value"].notna()]  # models of one module have no activation measures
    headlines = long["arch"].map({arch: FAMILIES[arch].headline for arch in frozen.protocols})
    cells = {arch: frozen.cell(arch, ORACLE, frozen.rates[arch][0]) for arch in frozen.protocols}
    steps = {arch: cell.protocol.training.steps for arch, cell in cells.items()}
    task_options = {arch: cell.columns["task_options"] for arch, cell in cells.items()}
    rows = long.assign(
        condition=headlines.where(long["measure"] == LOSS_OUT, IID),
        measure=long["measure"].replace(LOSS_OUT, LOSS),
        steps=long["arch"].map(steps),
        setting=frozen.setting,
        task_options=long["arch"].map(task_options),
        num_rules=NUM_RULES,
        width=WIDTH,
        seed=0,
        checkpoint=CHECKPOINT,
        place="",
    )
    return conform(rows, COLUMNS, "The card").assign(protocol=frozen.version, folder=owner)


def study_of(frozen: Frozen, cards: Mapping[str, Mapping[str, Any]]) -> Study:
    """Return the study of cards: owner -> card, "" for the package's."""
    rows = [rows_of(card, frozen, owner) for owner, card in cards.items()]
    return Study(pd.concat(rows, ignore_index=True), checkpoint=CHECKPOINT)
