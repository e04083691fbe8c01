"""Searches whose trials cost nothing."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cheap import Here

from modtf.engines.perform import Work
from modtf.engines.study import run_study
from modtf.tuning import Search
from modtf.tuning.run import run_searches
from modtf.tuning.trials import Trial, trials_of


class Tune:
    """tune(search, limit) -> its trials, after it has run or gone on; `said` is what it printed."""

    def __init__(self, out: Path):
        self.out = out
        self.said: list[str] = []

    def __call__(
        self, *searches: Search, function="cheap:train", retry_failed=False, **options: Any
    ) -> list[Trial]:
        work = Work(str(self.out), function, retry_failed=retry_failed)
        run = partial(run_study, work=work, engine=Here(), shown=False)
        run_searches(searches, self.out, run, retry_failed=retry_failed, say=self.said.append, **options)
        return trials_of(searches[0], self.out)


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    monkeypatch.setenv("MODTF_XLA_CACHE", "0")
    return Tune(tmp_path / "tuning")
