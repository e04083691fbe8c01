"""The vocabulary: what a task is, what it refuses, and how lists of tasks are read."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from modtf.task import (
    ARCHITECTURES,
    RNN_INPUTS,
    SEARCHES,
    SETTINGS,
    Task,
    as_members,
    check_choice,
    check_integer,
    science_hash,
)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arch": "cnn"}, "arch='cnn' is not known; expected one of mlp, mha, rnn"),
        ({"setting": "ranking"}, "setting='ranking' is not known"),
        ({"num_rules": 1}, "num_rules=1 .* at least 2"),
        ({"num_rules": 2.0}, "num_rules=2.0 .* integer"),
        ({"num_rules": True}, "num_rules=True"),
        ({"num_rules": "4"}, "num_rules='4'"),
        ({"data_seed": -1}, "data_seed=-1 .* at least 0"),
        ({"data_seed": None}, "data_seed=None"),
        ({"search": "v1"}, "no meaning for arch='mlp'"),
        ({"arch": "rnn", "search": "v2"}, "no meaning for arch='rnn'"),
        ({"arch": "mha", "search": "v3"}, "search='v3' is not known; expected one of v1, v2"),
        ({"target": "hidden"}, "target='hidden' is not known"),
        ({"target": "state"}, "rnn regression"),
        ({"arch": "rnn", "setting": "classification", "target": "state"}, "rnn regression"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        Task(**options)


def test_names_and_identities_are_unique():
    tasks = [
        Task(arch=arch, setting=setting, num_rules=num_rules, search=search, data_seed=data_seed)
        for arch in ARCHITECTURES
        for setting in SETTINGS
        for num_rules in (2, 4)
        for search in (SEARCHES if arch == "mha" else (None,))
        for data_seed in (0, 1)
    ]
    tasks.append(Task(arch="rnn", target="state"))
    assert len({task.name for task in tasks}) == len(tasks)
    assert len({science_hash(task.identity()) for task in tasks}) == len(tasks)
    assert len(set(tasks)) == len(tasks)
    for task in tasks:
        assert Task(**json.loads(json.dumps(task.to_dict()))) == task


def test_properties():
    mha = Task(arch="mha", num_rules=8, data_seed=3)
    assert (mha.search, mha.family, mha.token_width) == ("v1", "mha_v1", 32)
    assert replace(mha, search="v2").token_width == 48
    assert Task(arch="rnn", target="state").name == "rnn_regression_state_r2_task0"
    assert Task(arch="rnn", target="state").target_width == RNN_INPUTS
    assert Task().target_width is None
    assert [Task(arch=arch).is_sequence for arch in ARCHITECTURES] == [False, True, True]
    assert mha.shape_key == replace(mha, data_seed=0)


def test_numpy_integers_become_plain_ones():
    task = Task(num_rules=np.int64(4), data_seed=np.int32(2))  # type: ignore[arg-type]
    assert task == Task(num_rules=4, data_seed=2)
    assert json.dumps(task.identity())


def test_identity_is_pinned():
    """A field at its default that comes later must not change it."""
    assert science_hash(Task().identity()) == "f34208cb0cc66aa6"
    assert science_hash(Task(arch="mha", search="v2", num_rules=8).identity()) == "e0e5f33c13a8a4a6"


def test_science_hash_ignores_the_order_of_keys():
    assert science_hash({"a": 1, "b": [2, 3]}) == science_hash({"b": [2, 3], "a": 1})
    assert science_hash({"a": 1}) != science_hash({"a": 1.5})
    assert len(science_hash(0, digest_size=4)) == 8


def test_check_choice_and_integer():
    check_choice("x", 1, (1, 2))
    with pytest.raises(ValueError, match="x=3 is not known; expected one of 1, 2"):
        check_choice("x", 3, (1, 2))
    assert type(check_integer("n", np.int16(5), 5)) is int
    with pytest.raises(ValueError, match=r"n=4 .* at least 5"):
        check_integer("n", 4, 5)


def test_as_members():
    task = Task(data_seed=1)
    assert as_members(task, 3) == ([task], [3], False)
    assert as_members([task], [3]) == ([task], [3], True)
    assert as_members((task, Task()), np.arange(2).tolist()) == ([task, Task()], [0, 1], True)


@pytest.mark.parametrize(
    ("task", "seed", "message"),
    [
        (Task(), [0], "give one seed"),
        (Task(), 0.5, "seed=0.5"),
        (Task(), -1, "seed=-1"),
        ([Task()], 0, "a list of as many seeds"),
        ([Task()], [0, 1], "1 and 2"),
        ([Task()], ["0"], "seed='0'"),
        ([], [], "at least one"),
        ([Task(), Task(num_rules=4)], [0, 1], "mlp_regression_r2_task0, mlp_regression_r4_task0"),
        ([Task(), "mlp"], [0, 1], "Expected a modtf.Task"),
        (3, 0, "Expected a modtf.Task"),
    ],
)
def test_as_members_refuses(task, seed, message):
    with pytest.raises(ValueError, match=message):
        as_members(task, seed)


def test_imports_nothing_heavy():
    code = "import modtf.task, modtf.registry, modtf.randomness, sys; print('tensorflow' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "False"
