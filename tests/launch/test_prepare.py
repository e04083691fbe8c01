"""launch/prepare.py: prepares ahead, refuses bad input at once."""

from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from modtf.launch.prepare import choose_configs, command

DATA = "ünï çødé data"


def test_names_and_patterns() -> None:
    assert len(choose_configs(["*"])) == 200
    chosen = choose_configs(["rnn_*_r8_*", "rnn_regression_r8_task0", "rnn_regression_r9_task0"])
    assert [config.task.num_rules for config in chosen] == [8] * 10 + [9]
    for patterns in ([], ["cnn_*"], ["mlp_regression_r2_task0", "mlp"]):
        with pytest.raises(ValueError, match=r"configs|configuration"):
            choose_configs(patterns)


def test_it_prepares(call, tmp_path: Path) -> None:
    tfds.enable_progress_bar()  # another test of this process may have disabled it
    name = "mlp_classification_r2_task0_validation30_test60"
    given = f"--configs={name}", f"--data_dir={tmp_path / DATA}", "--file_format=array_record"
    status, printed, progress = call(command, "prepare.py", *given)
    assert status == 0, progress
    assert printed.startswith(f"[1/1] {name}")
    assert "examples/s" in progress, "a progress bar"
    splits = tfds.builder(f"modarch_rules/{name}", data_dir=tmp_path / DATA).info.splits
    assert splits["test"].num_examples == 60
