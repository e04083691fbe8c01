"""The examples in the docstrings are true."""

import doctest
from importlib import import_module
from pkgutil import iter_modules

import pytest

import modtf.metrics


@pytest.mark.parametrize("name", [module.name for module in iter_modules(modtf.metrics.__path__)])
def test_examples(name):
    results = doctest.testmod(import_module(f"modtf.metrics.{name}"))
    assert results.failed == 0
