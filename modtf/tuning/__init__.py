"""Searches the learning rate and the options of routers, and uses what was found.

Names are imported on first use: the flags of the command need the names of the oracles alone.
"""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.tuning.search import Search as Search
    from modtf.tuning.trials import Best as Best
    from modtf.tuning.trials import load_trials as load_trials
    from modtf.tuning.trials import use_best as use_best

#: how trials are chosen -> how many at most, where nobody says; None for as many as it takes
ORACLES: dict[str, int | None] = {"grid": None, "random": 10, "hyperband": None, "bayesian": 10}
#: These know all trials before the first, so that every engine runs several at once; the others are
#: KerasTuner's. Its own grid (1.4.8) does not resume: the order of its trials is no part of its state, and
#: the trial after a reload ends in a KeyError. Its random search resumes, but runs one trial at a time.
LISTS = ("grid", "random")
