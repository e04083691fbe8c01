"""Short trainings run without XLA, and find the same numbers."""

import json

import numpy as np
import pytest

from modtf import run_cell
from modtf.results import load_results
from modtf.studies.grid import cell_of
from modtf.training.xla import is_too_short_for_xla


@pytest.mark.parametrize(("preset", "short"), [("smoke", True), ("quick", False)])
@pytest.mark.parametrize("arch", ["mlp", "mha", "rnn"])
def test_what_is_too_short(arch, preset, short, monkeypatch):
    monkeypatch.delenv("MODTF_XLA")
    cell = cell_of({"arch": arch, "preset": preset, "variant": "modular"})
    assert is_too_short_for_xla(cell) == short
    monkeypatch.setenv("MODTF_XLA", "1")
    assert not is_too_short_for_xla(cell)


@pytest.mark.xla
def test_numbers_agree(small_cell, tmp_path, monkeypatch):
    values = {}
    for variable, xla in (("1", "on"), ("", "off")):
        monkeypatch.setenv("MODTF_XLA", variable)
        folder = run_cell(small_cell, tmp_path / xla, verbose=False)
        assert json.loads((folder / "config.json").read_text())["provenance"]["xla"] == xla
        frame = load_results(folder)
        values[xla] = frame.loc[~frame["measure"].str.contains("second"), "value"].to_numpy()
    np.testing.assert_allclose(values["on"], values["off"], rtol=1e-5, atol=1e-6)
