"""A model of one's own stands in the table beside the variants: the real commands on examples/own_model."""

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from flag_values import given
from processes import ROOT, succeeds
from registering import forgotten

import modtf
from modtf.base.plugins import load_plugin
from modtf.launch import run
from modtf.models.own import MODELS

PLUGIN = ROOT / "examples" / "own_model" / "my_model.py"
pytestmark = pytest.mark.slow

SMALL = [
    f"--plugin={PLUGIN}", "--rules=3", "--width=4", "--tasks=1", "--seeds=1", "--batch_size=8", "--steps=2",
    "--set=training.evaluations=2", "--set=evaluation.tokens=64", "--set=evaluation.batches=1",
    "--variant=gt_modular", "--model=my_model,my_baseline", "--set=model.experts=5",
]  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run, and what the command printed."""
    out = tmp_path_factory.mktemp("own") / "run"
    return out, succeeds(ROOT / "launch" / "run.py", *SMALL, f"--out={out}")


def test_the_table_has_a_row_for_each(finished):
    _, printed = finished
    assert printed.startswith("mlp_regression_r3_e4: 3 variants x 1 members")
    table = printed[printed.index("variant ") :].splitlines()
    rows = {line.split("  ")[0]: line.split() for line in table[2:7]}
    random = ["random (3 modules)", "random (5 modules)"]
    assert list(rows) == ["gt_modular", "my_baseline", "my_model (experts=5)", *random]
    assert rows["my_baseline"][3:8] == ["-"] * 5  # no activation: performance alone
    assert "-" not in rows["my_model (experts=5)"]
    # embedding 3 x 3, gate 5 x 5 + 5, first 5 x 15 + 15, second 5 x 3 + 5
    assert rows["my_model (experts=5)"][-2] == str(9 + 30 + 90 + 20)


def test_the_results_are_those_of_any_cell(finished):
    out, _ = finished
    (folder,) = out.glob("*my_model*")
    frame = pd.read_csv(folder / "results.csv", keep_default_na=False)
    assert set(frame["num_modules"]) == {5}
    assert set(frame["model_options"]) == {"experts=5"}
    assert set(frame["checkpoint"]) == {"tail", "last", "best"}
    assert {"loss", "alignment", "adaptation"} <= set(frame["measure"])
    assert np.load(folder / "activation.npz")["history"].shape == (3, 1, 3, 5)
    (events,) = folder.parent.glob("tensorboard/my_model*/task0_seed0/events*")
    assert re.search(rb"measures/alignment", events.read_bytes())


def test_tables_and_figures_show_them(finished):
    """Without the plug-in: results say all that they need."""
    study = modtf.Study.read(finished[0])
    assert "my_model (experts=5)" in study.table()
    (picture,) = study.figure("activation")
    words = [text.get_text() for axes in picture.figure.axes for text in axes.texts]
    assert any("my_model (experts=5)" in text for text in words), words


@pytest.fixture
def refused(monkeypatch):
    """refused(arguments, plugin) -> what `modtf run` says against it; what the plug-in registers is gone."""
    with forgotten(MODELS):
        yield _refusal
    del sys.modules[PLUGIN.stem]


def _refusal(arguments: list[str], plugin: Path = PLUGIN) -> str:
    load_plugin(plugin)
    with pytest.raises(ValueError, match=r"\w") as caught:
        run.main(given(run, *SMALL[1:], *arguments))
    return str(caught.value)


def test_another_model_of_that_name_is_no_row_of_this_table(finished, refused, tmp_path):
    out, _ = finished
    changed = tmp_path / PLUGIN.name
    changed.write_text(PLUGIN.read_text().replace("4 * width", "3 * width"))
    said = refused([f"--out={out}"], changed)
    assert (
        "holds results of the model 'my_model', whose file has changed since. Register the new model" in said
    )


def test_comments_do_not_change_a_model(finished, refused, tmp_path, capsys):
    """The table is there at once."""
    out, printed = finished
    changed = tmp_path / PLUGIN.name
    changed.write_text(f"# A comment.\n{PLUGIN.read_text()}")
    load_plugin(changed)
    run.main(given(run, *SMALL[1:], f"--out={out}"))
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model=mine"], "--model='mine' is not known; registered: my_model, my_baseline. Register it"),
        (["--model=my_baseline"], "--set model.experts is not known. The options of the architecture 'mlp' "
                                  "and 'my_baseline': none"),
        (["--variant=", "--model="], "--variant is empty"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, message, refused):
    assert message in refused(arguments)
