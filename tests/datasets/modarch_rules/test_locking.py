"""Several processes prepare at once; one is killed half-way."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from modtf.datasets.modarch_rules.configs import RulesConfig
from modtf.datasets.modarch_rules.modarch_rules_dataset_builder import exclusive
from modtf.tasks.task import Task

SMALL = RulesConfig(task=Task(), num_validation=3, num_test=3)
PREPARE = """
import sys
import modtf, tensorflow_datasets as tfds
tfds.disable_progress_bar()
builder = tfds.builder("modarch_rules/" + sys.argv[1], data_dir=sys.argv[2])
print("ready", flush=True)
builder.download_and_prepare()
test = builder.as_dataset(split="test", batch_size=-1)
print("sum", float(test["target"].numpy().sum()))
"""


def start(config: str, data_dir: Path) -> subprocess.Popen[str]:
    """Start a process that prepares; return just before it begins."""
    command = [sys.executable, "-c", PREPARE, config, str(data_dir)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_two_processes_prepare_at_once(tmp_path: Path) -> None:
    config = "mlp_regression_r2_task0_validation10_test20000"
    with exclusive(tmp_path / "modarch_rules" / config / "1.0.0"):  # both processes find the lock taken
        processes = [start(config, tmp_path) for _ in range(2)]
        time.sleep(0.3)
        assert [process.poll() for process in processes] == [None, None]
    outputs = [process.communicate(timeout=300)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    worked = [any("preparing dataset" in line for line in output) for output in outputs]
    assert sorted(worked) == [False, True], "exactly one generates"
    assert outputs[0][-1] == outputs[1][-1]
    assert not list(tmp_path.rglob("incomplete*"))


def test_what_a_killed_one_left_is_redone(tmp_path: Path) -> None:
    """A builder that existed before sees the result, too."""
    early, other = (tfds.builder("modarch_rules", data_dir=tmp_path, config=SMALL) for _ in range(2))
    folder = Path(other.data_dir)
    half = folder.with_name(f"incomplete.ABCDEF_{folder.name}")
    for path in (folder, half):
        path.mkdir(parents=True)
        (path / "modarch_rules-test.tfrecord-00000-of-00001").write_bytes(b"half")
    other.download_and_prepare()
    assert not half.exists()
    assert len(early.as_dataset(split="test")) == 3
    assert early.info.splits["test"].num_examples == 3


def test_prepared_data_can_be_read_without_leave_to_write(mlp) -> None:
    lock = Path(mlp.data_dir).with_name(".1.0.0.lock")
    lock.unlink(missing_ok=True)
    tfds.load(f"modarch_rules/{mlp.builder_config.name}", data_dir=mlp.data_dir_root, split="test")
    mlp.download_and_prepare()
    assert not lock.exists()
