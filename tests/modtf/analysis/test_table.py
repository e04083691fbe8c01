"""The table of `launch/run.py`, from results made up here."""

import numpy as np
import pandas as pd
import pytest

from modtf.analysis.table import results_table
from modtf.metrics import activation_measures
from modtf.results.schema import VARIANTS, conform

MEASURES = [measure.name for measure in activation_measures()]


def made_up(setting="regression", arch="mlp", members=3):
    length, longest = (None, None) if arch == "mlp" else (10, 30)
    rows = []
    for v, variant in enumerate(VARIANTS):
        for seed in range(members):
            value = {("loss", 1.0, length): 1.0 + v + 0.1 * seed, ("loss", 2.0, longest): 10.0 + v}
            if setting == "classification":
                value |= {("error", 1.0, length): 5.0 + v, ("error", 2.0, longest): 25.0 + v}
            value |= {(name, 1.0, length): np.nan if v == 0 else 0.25 for name in MEASURES}
            value["seconds", 1.0, length] = 12.0
            for (measure, scale, seq_len), number in value.items():
                rows.append(
                    {
                        "arch": arch,
                        "setting": setting,
                        "search": "",
                        "num_rules": 4,
                        "width": 8,
                        "variant": variant,
                        "data_seed": 0,
                        "seed": seed,
                        "num_parameters": 1000 + v,
                        "steps": 5,
                        "checkpoint": "last",
                        "measure": measure,
                        "scale": scale,
                        "seq_len": seq_len,
                        "value": number,
                    }
                )
    return conform(pd.DataFrame(rows))


def cells(text):
    return [line.split("  ") for line in text.splitlines()]


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_rows_and_columns(arch):
    lines = results_table(made_up(arch=arch)).splitlines()
    assert [line.split()[0] for line in lines[2:]] == [*VARIANTS, "random"]
    header = [name.strip() for name in lines[0].split("  ") if name.strip()]
    assert header == [
        "variant",
        "loss in",
        "loss out",
        "collapse avg",
        "collapse worst",
        "alignment",
        "inverse MI",
        "adaptation",
        "parameters",
        "seconds",
    ]
    assert set(lines[1]) == {"-"}
    monolithic, modular, random = lines[2], lines[3], lines[-1]
    assert "1.100 ±" in monolithic
    assert "10.000" in monolithic
    assert monolithic.split()[-2:] == ["1,000", "12"]
    assert "0.250" not in monolithic
    assert modular.count("0.250") == 5
    assert random.split()[1:3] == ["0.000", "0.000"]  # uniform use collapses nothing
    assert len(random.split()) == 6


def test_classification_shows_the_error_in_percent():
    lines = results_table(made_up("classification")).splitlines()
    assert "error % in" in lines[0]
    assert "error % out" in lines[0]
    assert "5.0" in lines[2].split()[1]


def test_one_member_has_no_interval():
    assert "±" not in results_table(made_up(members=1))
