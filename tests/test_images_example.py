"""An experiment with images in one file outside the tree: run, killed between stages, resumed, reported."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from processes import succeeds as finish
from test_plugin_example import REPORT, RUN, kill_at, results

pytestmark = pytest.mark.slow
PLUGIN = Path(__file__).parents[1] / "examples" / "images" / "images.py"
SMALL = [
    f"--plugin={PLUGIN}", "--arch=glyphs", "--width=2", "--tasks=2", "--seeds=1", "--steps=20",
    "--set=training.evaluations=2", "--set=evaluation.tokens=64", "--set=evaluation.batches=1",
    "--batch_size=8", "--set=evaluation.draws=2", "--set=evaluation.tokens_per_draw=64",
]  # fmt: skip


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    out = tmp_path_factory.mktemp("images")
    return out, finish(RUN, *SMALL, f"--out={out}")


def test_places_groups_probes_and_stages_are_results(straight):
    out, printed = straight
    lines = [line.split() for line in printed.splitlines()]  # below the measures, in a table that folds
    places = [word for line in lines if line and {*line} <= {"answer", "encoder"} for word in line]
    assert places == ["answer", "encoder"] * 5
    assert "out: mean over noise" in printed
    frame = results(out)
    assert set(frame["condition"]) >= {"iid", "noise", "contrast", "shift", "noise_6", "shift_5"}
    assert len(set(frame["condition"])) == 20 + 3
    assert set(frame.loc[frame["measure"] == "alignment", "place"]) == {"encoder", "answer"}
    assert set(frame.groupby("place")["num_modules"].unique().explode()) == {4, 2}
    loud = frame[frame["measure"] == "loudness"]
    assert set(loud["checkpoint"]) == {"last", "best"}
    assert np.isfinite(frame["value"].astype(float)).all()
    matrices = np.load(next(out.glob("*taught*")) / "activation.npz")
    assert (matrices["last_encoder"].shape, matrices["last_answer"].shape) == ((2, 4, 4), (2, 2, 2))


def test_a_killed_run_resumes_at_its_stage(straight, tmp_path):
    command = [RUN, *SMALL, "--variant=taught", f"--out={tmp_path}"]
    kill_at(tmp_path, "*/members/*/checkpoint_let_go.npz", *command)
    finish(*command)
    frame = results(straight[0])
    mine = frame[frame["variant"] == "taught"].reset_index(drop=True)
    pd.testing.assert_frame_equal(results(tmp_path).reset_index(drop=True), mine)


def test_the_report_draws_and_judges_what_it_registers(straight, tmp_path):
    printed = finish(
        REPORT, f"--plugin={PLUGIN}", f"--results={straight[0]}", f"--out={tmp_path}", "--claims"
    )
    assert "who is taught first answers better" in printed
    assert "All requested cells are present" in printed
    assert (tmp_path / "figures" / "loudness.png").read_bytes().startswith(b"\x89PNG")
    drawn = pd.read_csv(tmp_path / "tables" / "loudness.csv")
    assert len(set(drawn["variant"])) == 2
