"""Searches the learning rate and the options of routers with KerasTuner, and uses what was found.

Names are imported on first use: the flags of the command need the names of the oracles alone.
"""

from typing import Any

from etils import epy

from modtf.registry import Registry

with epy.lazy_api_imports(globals()):
    from modtf.tuning.best import Best as Best
    from modtf.tuning.best import find_best as find_best
    from modtf.tuning.best import use_best as use_best
    from modtf.tuning.search import Search as Search
    from modtf.tuning.trials import load_trials as load_trials

#: name -> a subclass of `modtf.tuning.oracles.Durable`; KerasTuner is imported on first use
ORACLES: Registry[Any] = Registry(
    "oracle", dict.fromkeys(("grid", "random", "hyperband", "bayesian"), "modtf.tuning.oracles")
)
