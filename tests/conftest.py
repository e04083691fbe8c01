"""Models train without XLA, which compiles for seconds, unless XLA is what a test or its file is about."""

import os

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Choose before the fixtures of a test or its file train; processes that they start inherit it."""
    os.environ["MODTF_XLA"] = "1" if item.get_closest_marker("xla") else "0"
