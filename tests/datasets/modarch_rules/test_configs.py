"""Configurations: the published 200, and any other by name or object."""

import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tensorflow_datasets as tfds

from modtf.datasets.modarch_rules.configs import CONFIGS, RulesConfig, find_config, task_from_name
from modtf.datasets.modarch_rules.modarch_rules_dataset_builder import exclusive
from modtf.tasks.task import Task


def test_every_published_task_has_a_configuration() -> None:
    names = list(tfds.builder_cls("modarch_rules").builder_configs)
    assert len(names) == len(set(names)) == 4 * 2 * 5 * 5
    assert "mha_v2_regression_r8_task0" in names
    assert "rnn_classification_r32_task4" in names


@pytest.mark.parametrize(
    "config",
    [
        *list(CONFIGS.values())[::37],
        RulesConfig(task=Task("rnn", num_rules=3, data_seed=11, target="state")),
        RulesConfig(task=Task("mha", num_rules=5, search="v1"), num_validation=7),
        RulesConfig(task=Task(num_rules=200), num_test=1),
    ],
    ids=lambda config: config.name,
)
def test_a_name_says_all(config: RulesConfig) -> None:
    again = find_config(config.name)
    sizes = config.num_validation, config.num_test
    assert (again.task, again.num_validation, again.num_test) == (config.task, *sizes)
    assert config.name in CONFIGS


NO_NAMES = """
mlp mlp_regression_r1_task0 mlp_regression_r02_task0 mlp_v1_regression_r2_task0 mha_v3_regression_r2_task0
mha_regression_r2_task0 rnn_state_classification_r2_task0 cnn_regression_r2_task0
rnn_output_regression_r2_task0 mlp_regression_r2_task0_validation0_test1
mlp_regression_r2_task0_validation10000_test25600
"""  # neither an option at its default nor the default sizes are named


@pytest.mark.parametrize("name", ["", *NO_NAMES.split()])
def test_other_names_are_refused(name: str, tmp_path) -> None:
    assert task_from_name(name) is None or "validation" in name
    assert name not in CONFIGS
    with pytest.raises(ValueError, match="not a configuration of modarch_rules"):
        find_config(name)


def test_what_a_builder_is_given(tmp_path) -> None:
    def made(**given):
        return tfds.builder("modarch_rules", data_dir=tmp_path, **given)

    task = Task("mha", "classification", 3, 9, search="v2")
    by_name = tfds.builder(f"modarch_rules/{task.name}", data_dir=tmp_path)
    assert made(task=task).data_dir == by_name.data_dir == made(config=RulesConfig(task=task)).data_dir
    # also published ones, although TFDS rejects a config object with a known name
    assert made(task=Task()).builder_config.task == made().builder_config.task == Task()
    assert pickle.loads(pickle.dumps(made(task=task))).info.full_name == by_name.info.full_name
    with pytest.raises(ValueError, match="cannot both be given"):
        made(task=Task(), config="mlp_regression_r2_task0")
    with pytest.raises(ValueError, match="builder_kwargs"):
        made(config=Task())
    with pytest.raises(ValueError, match="num_test=0"):
        RulesConfig(task=Task(), num_test=0)
    with pytest.raises(ValueError, match=r"mlp_regression_r2_task0.*KIND_rRULES_taskSEED"):
        tfds.load("modarch_rules/mlp_regresion_r2_task0", data_dir=tmp_path)


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
