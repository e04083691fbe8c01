"""The choice of trials, and the handling of trials that diverge, fail, or are abandoned."""

import math
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from cheap import Tune, loss, search_of

from modtf.base.space import parse_axis
from modtf.tuning import oracles
from modtf.tuning.search import begin_lists
from modtf.tuning.trials import trials_note, trials_of, trials_table

RATES = "1e-5:1e-1:log"


def rates(trials):
    return [trial.values["learning_rate"] for trial in trials]


def runs(out):
    """How often its cells were begun."""
    return sorted(path.read_text() for path in [*out.glob("*/runs"), *out.glob(".modtf/**/runs")])


def test_a_grid_tries_all_in_order(tune):
    search = search_of("0.01,0.001,0.0001")
    found = tune(search)
    assert rates(found) == [0.01, 0.001, 0.0001]
    assert [trial.objective for trial in found] == pytest.approx([1.2, 0.2, 1.2]), "the worse of two tasks"
    table = trials_table(search, tune.out).splitlines()
    assert [line.split()[0] for line in table[2:]] == ["1", "0", "2"], "the best first"
    assert table[2].split() == ["1", "0.001", "0.2000", "0.1000", "±1.2706", "best"], "t of 2 tasks is 12.706"
    assert "over 2 tasks, 2 members in every trial" in trials_note(search)


def test_grids_and_random_searches_are_lists_of_cells(tune):
    """Several searches run at once, in parts, without KerasTuner."""
    searches = [search_of("0.01,0.001,0.0001"), search_of("0.01,0.001", variant="monolithic")]
    tune(*searches, shard="1/2")
    states = [[trial.status for trial in trials_of(search, tune.out)] for search in searches]
    assert states == [["unfinished", "finished", "unfinished"], ["finished", "unfinished"]]
    assert "unfinished" in trials_table(searches[0], tune.out)
    tune(*searches, shard="0/2")
    assert {trial.status for search in searches for trial in trials_of(search, tune.out)} == {"finished"}
    assert runs(tune.out) == ["x"] * 5


def test_a_part_of_a_grid_varies_every_option_and_can_be_extended(tune):
    """A grid in order would try the first learning rate alone."""
    space = {"learning_rate": parse_axis("0.1,0.01,0.001"), "router.k": parse_axis("2,4,8")}
    search = replace(search_of("1", variant="top_k"), space=space)
    whole, part = search.list_settings(None), search.list_settings(3)
    assert whole == search.list_settings(9) == [{"learning_rate": r, "router.k": k}
                                                for r in (0.1, 0.01, 0.001) for k in (2, 4, 8)]  # fmt: skip
    assert all(len({one[path] for one in part}) > 1 for path in space)
    assert search.list_settings(6)[:3] == part
    assert replace(search, seed=2).list_settings(3) != part
    search.write(tune.out, whole[:3])  # as older versions did
    for limit, number in ((2, 3), (5, 5), (4, 5), (None, 9)):
        begin_lists([search], tune.out, limit)
        tried = search.settings(tune.out)
        assert (tried[:3], len(tried)) == (whole[:3], number)
    assert sorted(map(str, tried)) == sorted(map(str, whole))


def test_random_trials_are_new_ones_and_a_larger_limit_goes_on(tune):
    search = search_of("1e-5:1e-1:log", "random")
    first = rates(tune(search, limit=3))
    assert len(set(first)) == 3
    assert all(1e-5 <= rate <= 1e-1 for rate in first)
    assert rates(tune(search, limit=5))[:3] == first
    assert rates(tune(search, limit=3))[:3] == first
    assert len(trials_of(search, tune.out)) == 5, "a smaller limit forgets none"
    assert not set(rates(tune(replace(search, seed=2), limit=3))) & set(first)


def test_what_is_drawn_at_random_is_what_keras_tuner_drew():
    """Searches of its RandomSearchOracle can be resumed; the expected values come from it."""
    search = search_of("1e-5:1e-2:log", "random")
    assert [list(one.values()) for one in search.list_settings(3)] == [[5.883e-05], [2.719e-05], [9.041e-05]]
    axes = {"learning_rate": "0.001:0.002", "router.k": "2,4,8", "model.hidden": "8:16"}
    search = replace(search, seed=2, space={path: parse_axis(text) for path, text in axes.items()})
    expected = [[0.001744, 4, 13], [0.001518, 8, 10], [0.001446, 2, 10]]
    assert [list(one.values()) for one in search.list_settings(3)] == expected
    few = search_of("0.1,0.01,0.001", "random").list_settings(5)
    assert [one["learning_rate"] for one in few] == [0.1, 0.01, 0.001], "there are no more"


def test_hyperband_trains_the_best_of_short_trials_longer(tune, capsys):
    search = search_of(RATES, "hyperband")
    found = tune(search)
    of: dict[int, set[float]] = {10: set(), 30: set(), 90: set()}  # steps -> rates
    for trial in found:
        of[trial.cell.protocol.training.steps].add(trial.values["learning_rate"])
    assert len(found) == 23
    assert len(of[10]) == 9
    best = sorted(of[10], key=loss)[:3]
    assert set(map(loss, best)) <= set(map(loss, of[30]))
    assert all(trial.is_whole == (trial.cell.protocol.training.steps == 90) for trial in found)
    assert {trial.is_whole for trial in found} == {True, False}
    assert "steps" in trials_table(search, tune.out).splitlines()[0]
    assert capsys.readouterr().out.startswith("modular trial 0, learning_rate=")


@pytest.mark.parametrize("seed", [1, 8])
def test_hyperband_uses_up_the_fewest_settings_that_are_enough(tune, seed):
    """KerasTuner gives up after twenty draws of known settings, and leaves out later rounds."""
    few = ",".join(f"{10 ** (-5 + 3 * i / 16):.4g}" for i in range(17))
    found = tune(replace(search_of(few, "hyperband"), seed=seed))
    assert (len(found), sum(trial.is_whole for trial in found)) == (23, 6)


def test_a_bayesian_search_draws_as_if_it_had_not_stopped(tmp_path, monkeypatch):
    """KerasTuner starts its optimiser at random points; the search that goes on has a new oracle."""
    drawn, keras_tuners = [], oracles.Bayesian.__base__
    populate = keras_tuners.populate_space

    def drawing(self, name):
        drawn.append(self._random_state.uniform())
        return populate(self, name)

    monkeypatch.setattr(keras_tuners, "populate_space", drawing)
    search = search_of("1e-5:1e-1:log", "bayesian")
    for place, limits in (("once", [4]), ("twice", [2, 4])):
        for limit in limits:
            Tune(tmp_path / place)(search, limit=limit)
    assert len(set(drawn)) == 4
    assert drawn[:4] == drawn[4:]


def test_bayesian_trials_know_that_diverging_is_bad(tune, monkeypatch):
    """KerasTuner takes infinity for 0, the best there is."""
    told, keras_tuners = [], oracles.Bayesian.__base__
    populate = keras_tuners.populate_space

    def telling(self, name):
        told.append([trial.score for trial in self.trials.values()])
        return populate(self, name)

    monkeypatch.setattr(keras_tuners, "populate_space", telling)
    search = search_of("0.5,0.01,0.1,0.001", "bayesian")
    found = tune(search, limit=5)
    diverged = [trial for trial in found if trial.values["learning_rate"] == 0.5]
    assert diverged
    assert all(math.isinf(trial.objective) for trial in diverged)
    assert "1 member diverged" in trials_table(search, tune.out)
    assert np.isfinite(told[-1]).all()
    worst = max(trial.objective for trial in found[:-1] if math.isfinite(trial.objective))
    assert max(told[-1]) == worst


@pytest.mark.parametrize("oracle", ["grid", "bayesian"])
def test_a_trial_that_fails_is_left_alone_until_it_is_retried(tune, oracle, capsys):
    search = search_of("0.05,0.01,0.001", oracle)
    found = tune(search, limit=3)
    assert sorted(trial.status for trial in found) == ["failed", "finished", "finished"]
    assert "failed; ValueError: this rate is not liked" in capsys.readouterr().out
    assert tune(search, limit=3) == found
    assert runs(tune.out) == ["x"] * 3
    again = tune(search, limit=3, function="cheap:forgiving", retry_failed=True)
    assert [trial.status for trial in again] == ["finished"] * 3
    assert rates(again) == rates(found)


@pytest.mark.slow
@pytest.mark.parametrize(("oracle", "limit", "every"), [("bayesian", 4, 3), ("hyperband", None, 25)])
def test_ended_at_any_write_it_goes_on(tune, oracle, limit, every, monkeypatch):
    """Before a file gets its name or after it: nothing is lost, and nothing tried twice."""
    search = search_of(RATES, oracle)
    expected = [trial.objective for trial in tune(search, limit=limit)]
    shutil.rmtree(tune.out)
    real, count = os.replace, 0

    def failing(*paths, **options):
        nonlocal count
        count += 1
        if count % 2:
            real(*paths, **options)
        if count == stop:
            raise KeyboardInterrupt
        if not count % 2:
            real(*paths, **options)

    monkeypatch.setattr("os.replace", failing)
    for stop in range(1, 1000, every):  # noqa: B007
        count = 0
        try:
            found = tune(search, limit=limit)
            break
        except KeyboardInterrupt:
            continue
    assert stop > 5
    assert [trial.objective for trial in found] == expected
