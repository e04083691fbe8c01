"""A cell of VQA-MNIST from start to results, with the rows of its places."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from interrupted import Killed

import modtf

pytestmark = pytest.mark.slow


def cell_of(variant, members=((0, 0),)):
    task = modtf.Task("vqa_mnist", question="attribute", examples=2520)
    sizes: Any = {"batch_size": 42, "activation_batch_size": 42, "tokens": 420, "tokens_per_draw": 42}
    protocol = modtf.Protocol(
        modtf.Training(steps=4, batch_size=42, evaluations=2), modtf.Evaluation(batches=2, draws=1, **sizes)
    )
    return modtf.Cell(task, 4, variant, members, protocol)


@pytest.mark.parametrize("variant", ["group_all_all", "all_all_all_bn", "routed"])
def test_a_cell(variant, tmp_path):
    cell = cell_of(variant)
    modtf.run_cell(cell, tmp_path)
    found = modtf.load_results([str(tmp_path)]).query("checkpoint == 'last'")
    assert set(found.query("measure == 'error'")["condition"]) == {"iid", "novel"}
    alignment = found.query("measure == 'alignment'").set_index("place")["value"]
    assert set(alignment.index) == set(cell.task.places)
    assert alignment[["module", "classifier_groups"]].isna().all()  # one module
    if variant == "group_all_all":  # groups are uneven: perfect against them alone
        assert alignment["encoder_groups"] == 0 < alignment["encoder"]


def test_a_cell_of_pairs_of_symbols(tmp_path):
    """SQOOP: a module per sub-task is perfect where it has meaning; conditions are known and new pairs."""
    task = modtf.Task("sqoop", objects=2, symbols=5, side=32, examples=320)
    cell = replace(cell_of("group_all_all"), task=task, variant="all_sub_all_bn")
    modtf.run_cell(cell, tmp_path)
    found = modtf.load_results([str(tmp_path)]).query("checkpoint == 'last'")
    assert set(found.query("measure == 'error'")["condition"]) == {"iid", "novel"}
    alignment = found.query("measure == 'alignment'").set_index("place")["value"]
    assert alignment["module"] == 0
    assert alignment[["encoder", "classifier"]].isna().all()


@pytest.mark.parametrize("variant", ["group_all_all", "all_all_all_bn", "routed"])
def test_a_killed_cell_goes_on_to_the_same_results(variant, tmp_path):
    cell = cell_of(variant, ((0, 0), (1, 0)))
    modtf.run_cell(cell, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        modtf.run_cell(cell, tmp_path / "again", callbacks=[Killed(training=1)])
    assert (tmp_path / "again" / cell.folder / "members" / "task1_seed0" / "checkpoint.npz").exists()
    modtf.run_cell(cell, tmp_path / "again")
    whole, again = (modtf.load_results([str(tmp_path / name)]) for name in ("whole", "again"))
    clock = ("seconds", "members_times_steps_per_second")
    whole, again = (
        f[~f["measure"].isin(clock)].drop(columns="folder").reset_index(drop=True) for f in (whole, again)
    )
    pd.testing.assert_frame_equal(whole, again, check_exact=True)


def test_a_model_that_diverges_is_counted(tmp_path):
    """The learning rate is far too large; the other libraries' rows do not change."""
    cell = cell_of("all_all_all")
    wild = replace(cell.protocol.training, learning_rate=1e30)
    modtf.run_cell(replace(cell, protocol=replace(cell.protocol, training=wild)), tmp_path)
    study = modtf.Study.read(tmp_path)
    assert study.diverged["variant"].tolist() == ["all_all_all"]
    assert "(1 lost)" in study.table()


def test_members_that_train_in_turn_use_one_of_several_devices(tmp_path, monkeypatch, capsys):
    """`--strategy=auto` names all GPUs; several devices share members that train side by side only."""
    asked = {}

    def train(*_, **how):
        asked.update(how)
        raise KeyboardInterrupt

    monkeypatch.setattr("modtf.engines.cell.train_in_turn", train)
    with pytest.raises(KeyboardInterrupt):
        modtf.run_cell(cell_of("all_all_all", ((0, 0), (1, 0))), tmp_path, strategy=("CPU:0", "CPU:0"))
    assert asked["devices"] == ()
    assert "one device is used, because its members train one after the other" in capsys.readouterr().out
