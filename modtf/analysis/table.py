"""The comparison of the variants of one cell that `launch/run.py` prints."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from modtf.analysis.intervals import LEVEL, summarise
from modtf.analysis.labels import CHECKPOINT_WORDS, RANDOM, kind_label, place_label, task_of, with_variants
from modtf.analysis.rows import (
    COLLAPSES,
    IN,
    OUT,
    activation_rows,
    check_ways,
    has_unequal_rules,
    headline_label,
    performance_rows,
)
from modtf.metrics import MEASURES, activation_measures, measure_all, uniform_activation
from modtf.pages.text import listing, percent_of, span, text_table
from modtf.results.schema import KIND
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, IID
from modtf.tasks.protocol import TRAINING_FACTOR, Protocol
from modtf.training.arithmetic import epochs_of

BY = ["variant", "column"]
ONE = (*KIND, "num_rules", "width")  # models in one table must agree in these
SHORT = {"inverse_mutual_information": "inverse MI"}
PERCENT = ("error",)  # measures in percent


def results_table(frame: pd.DataFrame, level: float = LEVEL) -> str:
    """Return a text table: a row per variant, mean +- half the interval over tasks of each measure.

    Raises:
        ValueError: if `frame` holds several task types, R, widths or checkpoints, or models that cannot be
            compared, see `check_ways`.
    """
    header, rows = table_cells(frame, level)
    if all(row[-1] in ("", "-") for row in rows):  # of a card, which holds no seconds
        header, rows = header[:-1], [row[:-1] for row in rows]
    return text_table(header, rows)


def table_cells(frame: pd.DataFrame, level: float = LEVEL) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of `results_table`, to print in another form. Random routing is last.

    Example:
        >>> print(markdown_table(*table_cells(frame)))  # doctest: +SKIP
    """
    frame = frame if "router" in frame else with_variants(frame)
    _check_one(frame)
    performance, measured = performance_rows(frame), _measured(frame)
    performance["column"] = performance["distribution"].astype(str)
    rows = pd.concat([performance, measured, frame[frame["measure"] == "seconds"].assign(column="seconds")])
    summary = summarise(rows, BY, ["measure", "condition", "distribution", "place"], level=level)
    summary = summary.set_index(BY)
    # drop a column of a routed layer where no variant has a router: it would be empty
    finite = measured[np.isfinite(measured["value"]) | (measured["place"] == "")]
    columns = [IN, OUT, *finite["column"].unique()]
    judged = _performance_measure(frame)
    digits = {column: _digits(judged, summary, column) for column in columns}
    body = []
    for variant in (name for name in frame["variant"].cat.categories if name in set(frame["variant"])):
        cells = [_interval(summary, variant, column, digits[column]) for column in columns]
        seconds = _interval(summary, variant, "seconds", 0).partition(" ")[0]
        parameters = frame.loc[frame["variant"] == variant, "num_parameters"]
        sizes = dict.fromkeys([f"{parameters.min():,}", f"{parameters.max():,}"])
        body.append([variant, *cells, " to ".join(sizes), seconds])
    body += _random_rows(frame, columns)
    return ["variant", *_header(judged, columns), "parameters", "seconds"], body


def _random_rows(frame: pd.DataFrame, columns: Sequence[str]) -> list[list[str]]:
    """Return the row of random routing, if there are modules; one row for every M, if there are several.

    Each routed layer has its own R.
    """
    shown = activation_rows(frame)
    if shown.empty:
        return []
    arch, setting, options = shown[list(KIND)].astype(str).iloc[0]
    places = task_of(arch, setting, options, int(shown["num_rules"].iloc[0])).places
    pairs = shown[["num_modules", "place"]].astype({"place": str}).drop_duplicates()
    by_number: dict[int, dict[str, float]] = {}
    for number, place in sorted(pairs.itertuples(index=False, name=None)):
        if place in places:
            values = measure_all(uniform_activation(places[place].num_rules, number))
            named = {place_label(measure, place): value for measure, value in values.items()}
            by_number.setdefault(number, {}).update(named)
    rows = []
    for number, values in by_number.items():
        if set(columns) & set(values):
            name = f"{RANDOM} ({number} modules)" if len(by_number) > 1 else RANDOM
            rows.append([name, *(f"{values[c]:.3f}" if c in values else "" for c in columns), "", ""])
    return rows


def table_note(frame: pd.DataFrame, level: float = LEVEL) -> str:
    """Return the note below the table: the data behind the means, and the meaning of the columns.

    Example:
        >>> table_note(frame)  # doctest: +SKIP
        'mean ±95% interval (Student's t) over 2 tasks, each the mean of its 2 seeds; ...'
    """
    _check_one(frame)
    models = frame[["variant", "data_seed", "seed"]].drop_duplicates().astype({"variant": str})
    seeds = models.groupby(["variant", "data_seed"]).size()
    tasks = seeds.groupby("variant").size()
    if tasks.max() > 1:
        each = f", each the mean of its {span(seeds, 'seed')}" if seeds.max() > 1 else ""
        words = f"mean ±{percent_of(level)} interval (Student's t) over {span(tasks, 'task')}{each}"
    else:
        words = f"mean over {span(seeds, 'model')} of one task; other tasks may differ, so no interval"
    if len(models) < len(models[["data_seed", "seed"]].drop_duplicates()) * len(tasks):
        words += "; variants were run on different tasks or seeds, so compare them in pairs"
    names = [_performance_measure(frame), *map(str, _measured(frame)["measure"].unique())]
    family = FAMILIES[frame["arch"].iloc[0]]
    larger = [name for name in names if name in MEASURES and MEASURES[name].smaller_is_better is False]
    better = (
        f"smaller is better, except for {', '.join(larger)}" if larger else "smaller is better everywhere"
    )
    if has_unequal_rules(frame):
        better += f"; {COLLAPSES}"
    outside, checkpoint = headline_label(frame["arch"].iloc[0]), listing(frame["checkpoint"])
    meant = f"checkpoint {checkpoint}: {CHECKPOINT_WORDS[checkpoint]}"
    better = f".\n{family.table_note}" if family.table_note else f"; {better}."
    return f"{words}{better}\nout: {outside}. {meant}. seconds: training, per model."


def sizes_note(cell: Cell, checkpoint: str, usual: Protocol) -> str:
    """Return the number of examples behind a checkpoint of a cell, and whether it is smaller than usual.

    Example:
        >>> sizes_note(cell, "tail", usual)  # doctest: +SKIP
        'Measured on 2,560 new examples under each condition, fewer than usual because training is shorter.'
    """
    training, sizes = cell.protocol.training, cell.protocol.evaluation
    batches = sizes.batches
    if checkpoint == "tail":
        evaluations = epochs_of(training)[2] if training.tail else 1  # else they all read the same data
        batches = evaluations * sizes.smaller(TRAINING_FACTOR).batches
    fewer = training.steps < usual.training.steps and sizes.batches < usual.evaluation.batches
    words = ", fewer than usual because training is shorter" if fewer else ""
    return f"Measured on {batches * sizes.batch_size:,} new examples under each condition{words}."


def tables_of(results: pd.DataFrame, level: float = LEVEL) -> str:
    """Return one table for every task type, R and width of the results of a study."""
    parts = []
    for (*kind, num_rules, width), frame in results.groupby(list(ONE), observed=True):
        head = f"{kind_label(*map(str, kind))}, R = {num_rules}, width {width}"
        parts.append(f"{head}\n\n{results_table(frame, level)}\n\n{table_note(frame, level)}")
    return "\n\n".join(parts)


def _check_one(frame: pd.DataFrame) -> None:
    check_ways(frame)
    for name in (*ONE, "checkpoint"):
        values = list(map(str, frame[name].unique()))
        if len(values) != 1:
            raise ValueError(
                f"The table compares models of one {name}, received {', '.join(values) or 'no rows'}. "
                "Choose one."
            )


def _performance_measure(frame: pd.DataFrame) -> str:
    return FAMILIES[frame["arch"].iloc[0]].performance_measure(frame["setting"].iloc[0])


def _measured(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the family's or all activation measures in distribution, with `column`: measure, place."""
    names = FAMILIES[frame["arch"].iloc[0]].table or [measure.name for measure in activation_measures()]
    order = {name: place for place, name in enumerate(names)}
    rows = frame[frame["measure"].isin(list(order)) & (frame["condition"] == IID)]
    rows = rows.assign(place=rows["place"].astype(str), order=rows["measure"].astype(str).map(order))
    columns = [place_label(*names) for names in zip(rows["measure"], rows["place"], strict=True)]
    return rows.assign(column=columns).sort_values(["order", "place"], kind="stable")


def _header(measure: str, columns: Sequence[str]) -> list[str]:
    """Return the column names; the routed layer of a measure is on a second line."""
    unit = f"{measure} %" if measure in PERCENT else measure.replace("_", " ")
    names = {IN: f"{unit} in", OUT: f"{unit} out", **SHORT}
    parts = (column.partition(", ") for column in columns)
    return [f"{names.get(name, name.replace('_', ' '))}\n{place}".rstrip() for name, _, place in parts]


def _digits(measure: str, summary: pd.DataFrame, column: str) -> int:
    """Behind the point: 3, of percent 1, or as many as show two of the smallest mean: a loss of 0.0049."""
    if column not in (IN, OUT):
        return 3
    least = 1 if measure in PERCENT else 3
    means = summary.loc[summary.index.get_level_values("column") == column, "mean"]
    smallest = means[means > 0].min()
    return int(np.clip(1 - np.floor(np.log10(smallest)), least, 9)) if np.isfinite(smallest) else least


def _interval(summary: pd.DataFrame, variant: str, column: str, digits: int) -> str:
    row = summary.loc[(variant, column)] if (variant, column) in summary.index else None
    if row is None:
        return "-"
    lost = f" ({int(row['num_missing'])} lost)" if row["num_missing"] else ""
    if pd.isna(row["mean"]):
        return f"-{lost}" if column in (IN, OUT) else "-"  # an activation measure may not apply to a variant
    if pd.isna(row["low"]):
        return f"{row['mean']:.{digits}f}{lost}"
    return f"{row['mean']:.{digits}f} ±{(row['high'] - row['low']) / 2:.{digits}f}{lost}"
