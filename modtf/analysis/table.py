"""The table that `launch/run.py` prints."""

import pandas as pd

from modtf.metrics import activation_measures
from modtf.results import random_baseline, summarise
from modtf.analysis.performance import IN, MEASURE_OF_SETTING, OUT, performance_rows
from modtf.results.schema import VARIANTS

BY = ["variant", "column"]


def results_table(frame: pd.DataFrame) -> str:
    """Rows of variants, columns of performance and measures: mean +- half the 95% interval over members.

    Args:
        frame: `load_results` of one task family, setting, R and width, one checkpoint.
    """
    performance = performance_rows(frame)
    unit = {"loss": "loss", "error": "error %"}[MEASURE_OF_SETTING[frame["setting"].iloc[0]]]
    names = {IN: f"{unit} in", OUT: f"{unit} out"}
    measures = [measure.name for measure in activation_measures()]
    activation = frame[frame["measure"].isin(measures)]
    seconds = frame[frame["measure"] == "seconds"]
    rows = pd.concat(
        [
            performance.assign(column=performance["condition"].map(names)),
            activation.assign(column=activation["measure"]),
            seconds.assign(column="seconds"),
        ]
    )
    summary = summarise(rows, by=BY, over=["measure", "scale", "seq_len", "condition"]).set_index(BY)
    columns = [*names.values(), *measures]
    present = [variant for variant in VARIANTS if variant in set(frame["variant"])]
    body = []
    for variant in present:
        own = frame[frame["variant"] == variant]
        cells = [_interval(summary, variant, column) for column in columns]
        parameters = f"{own['num_parameters'].iloc[0]:,}"
        body.append([variant, *cells, parameters, _seconds(summary, variant)])
    baseline = random_baseline([int(frame["num_rules"].iloc[0])]).set_index("measure")["value"]
    body.append(["random", "", "", *(f"{baseline[name]:.3f}" for name in measures), "", ""])
    header = [
        "variant",
        *(name.replace("inverse_mutual_information", "inverse MI").replace("_", " ") for name in columns),
    ]
    return _aligned([[*header, "parameters", "seconds"], *body])


def _interval(summary: pd.DataFrame, variant: str, column: str) -> str:
    row = summary.loc[(variant, column)] if (variant, column) in summary.index else None
    if row is None or pd.isna(row["mean"]):
        return "-"
    digits = 1 if column.startswith("error") else 3
    if pd.isna(row["low"]):
        return f"{row['mean']:.{digits}f}"
    return f"{row['mean']:.{digits}f} ±{(row['high'] - row['low']) / 2:.{digits}f}"


def _seconds(summary: pd.DataFrame, variant: str) -> str:
    return f"{summary.loc[(variant, 'seconds'), 'mean']:.0f}"


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        first, *others = (
            text.ljust(w) if i == 0 else text.rjust(w)
            for i, (text, w) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join([first, *others]).rstrip())
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)
