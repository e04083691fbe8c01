"""Names become code on first use, and an unknown name says what is known."""

import sys

import pytest

from modtf.datasets.families import FAMILIES
from modtf.datasets.families.base import TaskFamily
from modtf.registry import Registry
from modtf.task import ARCHITECTURES


def test_looks_up_on_first_use():
    registry: Registry = Registry("thing", {"decoder": "json:JSONDecoder", "missing": "no_such_module:x"})
    assert list(registry) == ["decoder", "missing"]
    assert len(registry) == 2
    assert "missing" in registry
    assert "other" not in registry
    assert registry["decoder"] is sys.modules["json"].JSONDecoder
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry["missing"]


def test_unknown_name():
    with pytest.raises(KeyError, match=r"Unknown thing: 'c'. Known: a, b."):
        Registry("thing", {"a": "x:a", "b": "x:b"})["c"]


def test_register():
    registry: Registry = Registry("thing", {})
    registry.register("a", "json:loads")
    registry.register("a", "json:loads")
    assert registry["a"]("1") == 1
    with pytest.raises(ValueError, match="thing 'a' is registered already, as json:loads"):
        registry.register("a", "json:dumps")


def test_families():
    assert tuple(FAMILIES) == ARCHITECTURES
    for family in FAMILIES.values():
        assert issubclass(family, TaskFamily)
