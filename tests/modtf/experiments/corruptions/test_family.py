"""The 167 conditions, and the family's description."""

import hashlib

import pytest

from modtf.experiments.corruptions.conditions import GROUPS, code, name_of, orders, padded
from modtf.tasks.families import FAMILIES
from modtf.tasks.protocol import Protocol
from modtf.tasks.task import Task

LISTED = "bc04c3f065f5a3f584a77cb4d465c7989a793d6cd838c1792fc46eae3ee99a2e"  # of the published list


def test_the_conditions_are_those_of_the_list():
    names = ["-".join(order) or "ID" for order in orders()]
    assert len(set(names)) == 167
    assert names[:9] == ["ID", "CO", "GB", "IM", "IN", "R90", "SW", "CO-GB", "CO-IM"]
    assert hashlib.sha256(" ".join(names).encode()).hexdigest() == LISTED
    family = FAMILIES["corruptions"]
    assert family.condition_names == ("iid", *map(name_of, orders()))
    groups = [condition.group for condition in family.conditions[1:]]
    assert [groups.count(group) for group in GROUPS] == [7, 30, 40, 30, 30, 30]


def test_an_order_is_a_number():
    assert [code(order) for order in ((), ("CO",), ("SW",), ("CO", "GB"))] == [0, 1, 6, 15]
    assert len({code(order) for order in orders()}) == 167
    assert padded(("R90", "CO")) == [5, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("dataset", "steps", "batches"),
    [("digits", 21_800, 2), ("emnist", 514_000, 94), ("cifar10", 218_600, 40)],
)
def test_the_published_protocol(dataset, steps, batches):
    task = Task("corruptions", dataset=dataset)
    protocol = Protocol.published(task)
    assert (protocol.training.steps, protocol.evaluation.batches) == (steps, batches)
    assert protocol.training.weight_decay == 5e-4
    assert (protocol.training.schedule, protocol.training.evaluations) == ("cosine_epochs", 200)
    assert task.name == f"corruptions_{dataset}_categorical_r7_task0"
    assert task.identity()["dataset"] == dataset
