"""The examples in the docstrings are true, and every measure says where it comes from."""

import doctest
import re
from importlib import import_module
from pkgutil import walk_packages

import pytest

import modtf.metrics
from modtf.metrics import GROUPS, activation_measures


@pytest.mark.parametrize(
    "name", [module.name for module in walk_packages(modtf.metrics.__path__, "modtf.metrics.")]
)
def test_examples(name):
    results = doctest.testmod(import_module(name))
    assert results.failed == 0


@pytest.mark.parametrize("measure", activation_measures(GROUPS), ids=lambda measure: measure.name)
def test_sources(measure):
    text = measure.function.__doc__
    assert re.search(r"Source: .*\(\d{4}\)", text)
    assert "Example:" in text
    if measure.group == "diagnostic":
        assert "What fools it:" in text
