"""Prints, cell by cell, what the released code and modtf reached: means over seeds, and their difference.

    python docs/fidelity/compare.py --released=runs/released --ours=runs/matched

Every number of a model is its mean over the last tenth of its steps ("tail"), or of the untrained model
("step 0"); intervals are Student's t over seeds, that of the difference Welch's.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from cells import CELLS, TAIL, VARIANTS
from ours import cell_of
from scipy import stats

import modtf
from modtf.metrics import measure_all
from modtf.results import load_history

PERFORMANCE = ("loss", "loss_scale2", "error", "error_scale2")
MEASURES = ("collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information")
KIND = ("arch", "task_options", "setting", "num_rules")
LEVEL = 0.95
MARGINS = {"performance": 0.15, "measures": 0.05}  # equal: a share of the released loss or error; a value


def released_values(folder: Path) -> pd.DataFrame:
    """Columns cell, variant, seed, when, measure, value."""
    rows = []
    for path in sorted(folder.glob("*.npz")):
        cell, variant, _, seed = path.stem.split("-")
        with np.load(path, allow_pickle=False) as found:
            series = {name: found[name] for name in PERFORMANCE if name in found}
            if "activation" in found:
                measured = [measure_all(matrix) for matrix in found["activation"]]
                series |= {name: np.array([values[name] for values in measured]) for name in MEASURES}
        for name, values in series.items():
            for when, value in (("step 0", values[0]), ("tail", values[-TAIL:].mean())):
                rows.append((cell, variant, int(seed.removeprefix("seed")), when, name, float(value)))
    return pd.DataFrame(rows, columns=["cell", "variant", "seed", "when", "measure", "value"])


def our_values(folder: Path) -> pd.DataFrame:
    """Return the same values of modtf's results."""
    results = modtf.load_results(folder)
    tail = results[results["checkpoint"] == "tail"].assign(when="tail")
    history = load_history(folder)
    start = history[history["step"] == 0].assign(when="step 0")
    both = pd.concat([tail, start])
    cells = {name: cell_of(cell, "modular", 0, 1).columns for name, cell in CELLS.items()}
    names = {tuple(str(columns[key]) for key in KIND): name for name, columns in cells.items()}
    short = both["condition"].astype(str).map({"iid": "", "scale2": "_scale2"})
    both = both.assign(
        cell=[names[tuple(map(str, kind))] for kind in both[list(KIND)].itertuples(index=False)],
        measure=both["measure"].astype(str) + short,
    )
    both = both[both["measure"].isin([*PERFORMANCE, *MEASURES])]
    return both[["cell", "variant", "seed", "when", "measure", "value"]].astype({"variant": str})


def interval(values: np.ndarray) -> str:
    """Mean and half the interval."""
    if len(values) < 2:
        return f"{values.mean():.4g}"
    half = stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.4g} ±{half:.2g}"


def difference(ours: np.ndarray, released: np.ndarray, level: float = LEVEL) -> tuple[float, float, float]:
    """Ours less released, with Welch's interval; NaN where there are no two values of each."""
    if min(len(ours), len(released)) < 2:
        return float(ours.mean() - released.mean()), np.nan, np.nan
    found = stats.ttest_ind(ours, released, equal_var=False).confidence_interval(level)
    return float(ours.mean() - released.mean()), float(found.low), float(found.high)


def verdict(ours: np.ndarray, released: np.ndarray, measure: str) -> str:
    """ "*" where the interval of the difference excludes 0; "=" where that of two one-sided tests at 5% lies
    within the margin; both where a difference is sure and small; "" where neither can be said."""
    _, low, high = difference(ours, released)
    performance = measure in PERFORMANCE
    margin = MARGINS["performance"] * abs(float(released.mean())) if performance else MARGINS["measures"]
    _, least, most = difference(ours, released, 2 * LEVEL - 1)
    return "*" * (low > 0 or high < 0) + "=" * (-margin < least and most < margin)


def table(released: pd.DataFrame, ours: pd.DataFrame) -> pd.DataFrame:
    """One row per cell, variant, time and measure that both have."""
    rows = []
    keys = ["cell", "variant", "when", "measure"]
    groups = [dict(list(frame.dropna(subset="value").groupby(keys))) for frame in (released, ours)]
    for cell in CELLS:
        for variant in VARIANTS:
            for when in ("step 0", "tail"):
                for measure in (*PERFORMANCE, *MEASURES):
                    found = [group.get((cell, variant, when, measure)) for group in groups]
                    if found[0] is None or found[1] is None:
                        continue
                    theirs, mine = (frame["value"].to_numpy(float) for frame in found)
                    gap, low, high = difference(mine, theirs)
                    rows.append(
                        {
                            "cell": cell,
                            "variant": variant,
                            "when": when,
                            "measure": measure,
                            "released": interval(theirs),
                            "modtf": interval(mine),
                            "difference": f"{gap:+.2g} ({low:+.2g} to {high:+.2g})",
                            "seeds": f"{len(theirs)}, {len(mine)}",
                            "verdict": verdict(mine, theirs, measure),
                        }
                    )
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--released", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--when", nargs="+", default=["step 0", "tail"])
    parser.add_argument("--measures", nargs="+", default=[*PERFORMANCE, *MEASURES])
    given = parser.parse_args()
    rows = table(released_values(given.released), our_values(given.ours))
    rows = rows[rows["when"].isin(given.when) & rows["measure"].isin(given.measures)]
    print(rows.to_markdown(index=False))
    sure, equal = (int(rows["verdict"].str.contains(mark, regex=False).sum()) for mark in "*=")
    print(f"\nOf {len(rows)} intervals of the difference {sure} exclude 0; {equal} lie within the margin.")


if __name__ == "__main__":
    main()
