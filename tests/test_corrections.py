"""Stored results that were corrected after training name the correction, and follow from what they store."""

import csv
import io
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from modtf.analysis.trained import how_corrected
from modtf.results import find_cells, load_activations, load_results
from modtf.results.load import load_history
from modtf.results.schema import ACTIVATION, HISTORY, RESULTS

STUDY = Path(__file__).parents[1] / "docs" / "study"
ARCHIVES = sorted(STUDY.glob("*.zip"), key=lambda path: path.stem)
CORRECTED = {"corruptions", "factors", "factors_cosine", "first", "first_cosine", "misrouting"}
CORRECTED |= {"open_questions", "recurrent_cosine", "seeds"}
KEYS = ["data_seed", "seed", "place"]
#: sampled use under 5 to 100 distributions gives a curve and a table other values for the same model
SAMPLED = 0.03


@cache
def cells_of(path):
    return [cell for cell in find_cells(path) if cell.is_finished]


def rows_of(content):
    """Return the rows of adaptation of a table: text of all columns but the value -> value."""
    rows = csv.DictReader(io.StringIO(content))
    return {
        tuple((name, text) for name, text in row.items() if name != "value"): float(row["value"])
        for row in rows
        if row["measure"] == "adaptation"
    }


@cache
def draws(num_rules, number):
    return np.stack([np.random.RandomState(i).dirichlet(np.ones(num_rules)) for i in range(number)])


def exact(matrices, number):
    """Return the published measure of p @ A, by its definition, for matrices [..., R, M]."""
    p = draws(matrices.shape[-2], number)
    length = max(matrices.shape[-2:])
    used, asked = (
        np.sort(np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, length - x.shape[-1])])) for x in (p @ matrices, p)
    )
    return np.abs(used - asked).sum(axis=-1).mean(axis=-1)


def recomputed(cell, row, old, sampled):
    """Return the corrected value of one old row of a cell."""
    row = dict(row)
    (one,) = load_activations([cell], row["place"])
    member = one.index(int(row["data_seed"]), int(row["seed"]))
    if "step" in row:
        matrices, number = one.history[one.steps == int(row["step"]), member], sampled["history"]
    else:
        matrices = one.evaluations(row["checkpoint"])[:, member]
        number = sampled[row["checkpoint"]]
    change = exact(matrices, 100) - exact(matrices, number)
    return np.clip(old + change.mean(), 0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_curves_end_where_the_table_of_the_last_checkpoint_stands(path):
    results, history = load_results(cells_of(path)), load_history(cells_of(path))
    last = history["step"] == history.groupby("folder", observed=True)["step"].transform("max")
    ends = history[last & (history["measure"] == "adaptation")]
    table = results[(results["checkpoint"] == "last") & (results["measure"] == "adaptation")]
    keys = ["folder", *KEYS]
    both = ends.astype({"folder": str}).merge(table.astype({"folder": str}), on=keys)
    apart = (both["value_x"] - both["value_y"]).groupby(both["folder"]).mean().abs()
    assert not (apart > SAMPLED).any(), apart[apart > SAMPLED]


@pytest.mark.slow
@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.stem)
def test_archives_name_their_corrections(path):
    marked = [cell for cell in cells_of(path) if cell.corrections]
    assert bool(marked) == (path.stem in CORRECTED) == bool(how_corrected(marked))
    for cell in marked:
        (one,) = cell.corrections
        tables = {name: rows_of((cell.path / name).read_text()) for name in (RESULTS, HISTORY)}
        assert one["commit"] in "".join(how_corrected([cell]))
        for name, lines in one["old"].items():
            header = (cell.path / name).read_text().splitlines()[0]
            old = rows_of("\n".join([header, *lines]))
            assert len(old) == len(lines) > 0
            if not (cell.path / ACTIVATION).is_file():  # left out
                assert not set(old) & set(tables[name])
                continue
            for row, value in list(old.items())[:: 1 + len(old) // 40]:
                expected = recomputed(cell, row, value, one["draws"])
                assert tables[name][row] == pytest.approx(expected, abs=1e-9)
                assert tables[name][row] != value
