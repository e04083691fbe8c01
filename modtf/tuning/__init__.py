"""Searches the learning rate and the options of routers with KerasTuner, and uses what was found."""

from typing import Any

from modtf.registry import Registry
from modtf.tuning.best import Best as Best
from modtf.tuning.best import find_best as find_best
from modtf.tuning.best import use_best as use_best
from modtf.tuning.search import Search as Search
from modtf.tuning.trials import load_trials as load_trials

#: name -> class with the arguments of `modtf.tuning.oracles.Durable`; KerasTuner is imported on first use
ORACLES: Registry[Any] = Registry(
    "oracle", dict.fromkeys(("grid", "random", "hyperband", "bayesian"), "modtf.tuning.oracles")
)
