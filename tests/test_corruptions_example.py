"""A method, a network and a corruption in one file outside the tree: run, and reported."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_plugin_example import REPORT, RUN, finish, kill_at, results

import modtf

pytestmark = pytest.mark.slow
PLUGIN = Path(__file__).parents[1] / "examples" / "corruptions" / "my_corruptions.py"
SMALL = [
    f"--plugin={PLUGIN}", "--width=4", "--tasks=1", "--steps=3", "--batch_size=16",
    "--set=training.evaluations=1", "--set=evaluation.tokens=50", "--set=evaluation.batches=1",
    "--set=evaluation.batch_size=10", "--set=evaluation.activation_batch_size=50", "--set=evaluation.draws=2",
    "--set=evaluation.tokens_per_draw=50",
]  # fmt: skip


def test_method_network_and_corruption(tmp_path):
    command = [RUN, *SMALL, "--arch=solarised", "--architecture=shallow", "--variant=erm,curriculum"]
    finish(*command, f"--out={tmp_path}")
    frame = results(tmp_path)
    assert set(frame["variant"]) == {"erm", "curriculum"}
    assert set(frame["condition"]) >= {"so", "gb_so", "co_gb", "pairs"}
    assert set(frame.loc[frame["variant"] == "curriculum", "steps"]) == {4}
    assert (frame["measure"] == "invariance_composed").any()
    finish(REPORT, f"--plugin={PLUGIN}", f"--results={tmp_path}", f"--out={tmp_path / 'report'}", "--claims")
    assert (tmp_path / "report" / "tables" / "corruptions_accuracy_solarised_digits.csv").exists()


def test_the_eighth_corruption_is_drawn_in_training():
    modtf.load_plugin(str(PLUGIN))
    task = modtf.Task("solarised")
    rule = np.concatenate([f["rule"] for f, _ in modtf.stream(task, 256).take(2)])
    assert set(rule.ravel()) == set(range(8))
    pairs = (next(iter(modtf.stream(task, 8, "test", condition=name)))[0]["inputs"] for name in ("id", "so"))
    clean, made = (np.asarray(x).astype(int) for x in pairs)
    np.testing.assert_array_equal(made, np.where(clean < 128, clean, 255 - clean))
    for variant in ("modular", "image_space", "labelled"):
        with pytest.raises(ValueError, match="CO, GB, IM, IN, R90, SW only, but arch='solarised' has others"):
            modtf.build(task, variant=variant, width=4)


def test_a_killed_run_ends_as_one_that_was_not(tmp_path):
    """`modular`, killed in the middle of its stages."""
    pytest.importorskip("mlxtend")
    small = [*SMALL[1:], "--arch=corruptions", "--variant=modular", "--set=trainer.sites=5", "--steps=30"]
    finish(RUN, *small, f"--out={tmp_path / 'straight'}")
    command = [RUN, *small, f"--out={tmp_path / 'killed'}"]
    kill_at(tmp_path / "killed", "*/members/*/checkpoint_gb_final.npz", *command)
    finish(*command)
    frames = [results(tmp_path / name).reset_index(drop=True) for name in ("straight", "killed")]
    frames = [frame[~frame["measure"].str.contains("second")] for frame in frames]
    pd.testing.assert_frame_equal(*frames)
