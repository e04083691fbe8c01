"""Search for the learning rate and the options of routers, and use the best settings.

Names are imported on first use, because the command's flags need only the names of the oracles.
"""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.tuning.search import Best as Best
    from modtf.tuning.search import Search as Search
    from modtf.tuning.trials import load_trials as load_trials
    from modtf.tuning.trials import use_best as use_best

#: oracle -> the default limit of trials; None for no limit
ORACLES: dict[str, int | None] = {"grid": None, "random": 10, "hyperband": None, "bayesian": 10}
#: These oracles know all trials in advance, so every engine runs several at once. The others are
#: KerasTuner's. Its own grid (1.4.8) does not resume: the order of trials is not part of its state, and the
#: trial after a reload ends in a KeyError. Its random search resumes, but runs one trial at a time.
LISTS = ("grid", "random")
