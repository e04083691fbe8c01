"""Tasks: their fields, and the values that they reject."""

import contextlib
import json
import pickle
from itertools import product

import numpy as np
import pytest
from processes import succeeds

from modtf.tasks.families import FAMILIES, with_free_rules
from modtf.tasks.task import SPLITS, Task, random_key, science_hash


def all_options(family):
    """Every combination of the options that are choices."""
    choices = {option.name: option.choices for option in family.options if option.choices}
    return [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]


def all_tasks():
    for arch, family in FAMILIES.items():
        for setting, rules, seed, options in product(family.settings, (2, 4), (0, 1), all_options(family)):
            with contextlib.suppress(ValueError):  # options that have no meaning together
                yield Task(arch, setting, rules, seed, **options)


def test_options_are_keywords():
    with pytest.raises(TypeError, match="positional"):
        Task("mha", "regression", 2, 0, "v2")  # type: ignore[call-arg]


def test_names_and_identities_are_unique():
    tasks = list(all_tasks())
    assert len(tasks) > 8 * len(with_free_rules())
    assert len({task.name for task in tasks}) == len(tasks)
    assert len({science_hash(task.identity()) for task in tasks}) == len(tasks)
    assert len(set(tasks)) == len(tasks)
    for task in tasks:
        assert Task(**json.loads(json.dumps(task.to_dict()))) == task
        assert eval(repr(task)) == task
        assert pickle.loads(pickle.dumps(task)) == task


def test_properties():
    mha = Task(arch="mha", num_rules=8, data_seed=3)
    assert (mha.search, mha.kind, mha.token_width) == ("v1", "mha_v1_regression", 32)
    assert mha.replace(search="v2").token_width == 48
    assert Task(arch="rnn", target="state").name == "rnn_state_regression_r2_task0"
    assert Task(arch="rnn", target="state").target_width == 32
    assert Task().target_width is None
    assert [Task(arch).is_sequence for arch in ("mlp", "mha", "rnn")] == [False, True, True]
    assert mha.shape_key == mha.replace(data_seed=0)
    assert [Task(setting=s).performance for s in ("regression", "classification")] == ["loss", "error"]
    assert mha.named_options == {"search": "v1"}
    assert Task("rnn").named_options == {}


def test_what_is_no_option_is_no_attribute():
    with pytest.raises(AttributeError, match="Task has no attribute 'search'"):
        _ = Task().search


def test_numpy_integers_become_plain_ones():
    task = Task(num_rules=np.int64(4), data_seed=np.int32(2))  # type: ignore[arg-type]
    assert task == Task(num_rules=4, data_seed=2)
    assert json.dumps(task.identity())


def test_identity_is_pinned():
    """An option at its default that comes later must not change it."""
    assert science_hash(Task().identity()) == "f34208cb0cc66aa6"
    assert science_hash(Task(arch="mha", search="v2", num_rules=8).identity()) == "e0e5f33c13a8a4a6"


def test_science_hash_ignores_the_order_of_keys():
    assert science_hash({"a": 1, "b": [2, 3]}) == science_hash({"b": [2, 3], "a": 1})
    assert science_hash({"a": 1}) != science_hash({"a": 1.5})
    assert len(science_hash(0, digest_size=4)) == 8


def test_keys_of_random_numbers_are_distinct_and_64_bit():
    kinds = product(("regression", "classification"), ("mlp", "mha", "rnn"), (2, 8, 32), range(3))
    tasks = [Task(arch, setting, num_rules, data_seed) for setting, arch, num_rules, data_seed in kinds]
    tasks += [Task(arch="mha", search="v2"), Task(arch="rnn", target="state")]
    keys = [
        random_key(task, seed, split, *purpose)
        for task in tasks
        for seed in range(5)
        for split in SPLITS
        for purpose in (["rule"], ["inputs"], ["length", 3, "rule"])
    ]
    assert len(set(keys)) == len(keys)
    assert min(keys) < -(2**62)
    assert max(keys) > 2**62
    assert all(-(2**63) <= key < 2**63 for key in keys)


def test_purposes_do_not_run_into_each_other():
    assert random_key(Task(), 1, "a", "b") != random_key(Task(), 1, "ab")
    assert random_key(Task(), 1, 2) != random_key(Task(), 1, "2")
    assert random_key(Task(), 12) != random_key(Task(), 1, 2)


def test_keys_are_pinned():
    assert random_key(Task(), 0, "train", "rule") == 6446684492866959000


GROUND_FLOOR = (
    "modtf.tasks.families, modtf.tasks.cell, modtf.base.registry, modtf.base.plugins, modtf.base.files"
)


def test_imports_nothing_heavy():
    code = f"import sys, modtf, {GROUND_FLOOR}"
    code += "\nmodtf.Cell(modtf.Task('rnn'), 8, 'modular', ((0, 0),))"
    code += "\nprint([name for name in ('tensorflow', 'keras', 'pandas', 'numpy') if name in sys.modules])"
    assert succeeds("-c", code).strip() == "[]"
