"""Keys: one number per (task, split, seed, purpose), never the same twice, the same on every machine."""

from itertools import product

from modtf.randomness import random_key
from modtf.task import SPLITS, Task


def test_keys_are_distinct_and_64_bit():
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
