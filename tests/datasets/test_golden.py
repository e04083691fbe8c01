"""The first batch of every kind of task, of every split and under every condition, is pinned.

A change here changes every published number: never without a new version of the data.
"""

import hashlib
import json
from pathlib import Path

import numpy as np

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())


def digest(*arrays):
    """Return the digest of little-endian bytes, the same on every machine."""
    little = (array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)
    return hashlib.sha256(b"".join(little)).hexdigest()[:16]


def projection(array):
    """One number that every number of the array enters with a weight of its own."""
    weights = np.random.RandomState(0).randn(array.size)
    return array.ravel().astype(np.float64) @ weights / np.sqrt(array.size)


def golden(task):
    assert task.name in GOLDEN, "a new kind of task: pin its first bytes"
    return GOLDEN[task.name]


def test_finite_splits(draw, any_task):
    """Computed in float64 and rounded once: all bytes are pinned."""
    for split in ("validation", "test"):
        [batch] = draw(any_task, 1, split=split, batch_size=8)
        assert digest(*batch) == golden(any_task)[split], split


def test_every_condition(draw, any_family):
    found = {}
    for condition in any_family.family.conditions:
        [batch] = draw(any_family, 1, split="test", batch_size=8, **condition.stream_options())
        found[condition.of("test")] = digest(*batch)
    assert found == {name: value for name, value in golden(any_family).items() if name.startswith("test")}


def test_train(draw, any_task):
    """Computed in float32: rules are exact, the last bits of other numbers are the processor's."""
    [(inputs, rule, target)] = draw(any_task, 1, batch_size=8)
    rules, of_inputs, of_target = golden(any_task)["train"]
    assert digest(rule) == rules
    np.testing.assert_allclose(projection(inputs), of_inputs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(projection(target), of_target, rtol=1e-4, atol=1e-5)
