"""How trials are chosen, and what becomes of those that diverge, fail, or are left behind."""

import json
import math
from dataclasses import replace

import cheap
import numpy as np
import pytest
from cheap import loss, search_of

from modtf.tuning import ORACLES
from modtf.tuning.oracles import hyperparameters_of
from modtf.tuning.table import trials_note, trials_table


def oracle_of(search, folder, limit=None):
    """Its oracle alone, with what is in the folder."""
    oracle = ORACLES[search.oracle](hyperparameters_of(search.space), limit, search.seed)
    oracle._set_project_dir(str(folder), search.name)
    return oracle


def test_a_grid_tries_all_in_order(tune, work):
    search = search_of("0.01,0.001,0.0001")
    found = tune(search)
    assert [trial.values["learning_rate"] for trial in found] == [0.01, 0.001, 0.0001]
    assert [trial.objective for trial in found] == pytest.approx([1.1, 0.1, 1.1]), "the mean of two members"
    assert tune.said[0].startswith("modular trial 0, learning_rate=0.01: loss 1.1, ")
    table = trials_table(search, work.out).splitlines()
    assert [line.split()[0] for line in table[2:]] == ["1", "0", "2"], "the best first"
    assert table[2].split() == ["1", "0.001", "0.1000", "±1.2706", "best"], "t of 2 tasks is 12.706"
    assert "over 2 tasks, 2 members in every trial" in trials_note(search)


def test_random_trials_are_new_ones_and_a_larger_limit_goes_on(tune):
    search = search_of("1e-5:1e-1:log", "random")
    first = tune(search, 3)
    rates = [trial.values["learning_rate"] for trial in first]
    assert len(set(rates)) == 3
    assert all(1e-5 <= rate <= 1e-1 for rate in rates)
    tune.said.clear()
    assert [trial.values["learning_rate"] for trial in tune(search, 5)][:3] == rates
    assert len(tune.said) == 2
    other = tune(replace(search, seed=2), 3)
    assert not {trial.values["learning_rate"] for trial in other} & set(rates)


def test_hyperband_trains_the_best_of_short_trials_longer(tune, work):
    search = search_of("1e-5:1e-1:log", "hyperband")
    found = tune(search)
    rates = {
        steps: {t.values["learning_rate"] for t in found if t.cell.protocol.training.steps == steps}
        for steps in (10, 30, 90)
    }
    assert len(found) == 23
    assert len(rates[10]) == 9
    assert set(map(loss, sorted(rates[10], key=loss)[:3])) <= set(map(loss, rates[30]))
    assert {trial.is_whole for trial in found} == {True, False}
    assert all(trial.is_whole == (trial.cell.protocol.training.steps == 90) for trial in found)
    assert "steps" in trials_table(search, work.out).splitlines()[0]


def test_bayesian_trials_know_that_diverging_is_bad(tune, work):
    """KerasTuner takes infinity for 0, the best there is."""
    search = search_of("0.5,0.01,0.1,0.001", "bayesian")
    found = tune(search, 6)
    diverged = [trial for trial in found if trial.values["learning_rate"] == 0.5]
    assert diverged
    assert all(math.isinf(trial.objective) for trial in diverged)
    assert "1 member diverged" in trials_table(search, work.out)
    oracle = oracle_of(search, search.folder(work.out).parent, 6)
    oracle.reload()
    _, y = oracle._vectorize_trials()
    assert np.isfinite(y).all()
    worst = [trial.objective for trial in found if math.isfinite(trial.objective)]
    assert y.max() == max(worst)
    assert (y == y.max()).sum() > worst.count(max(worst))


def test_a_trial_that_fails_is_left_alone_until_it_is_retried(tune, work, monkeypatch):
    search = search_of("0.01,0.05,0.001")
    assert [trial.status for trial in tune(search)] == ["finished", "failed", "finished"]
    assert "failed: ValueError: this rate is not liked; see " in tune.said[1]
    assert "error.json" in tune.said[1]
    tune.said.clear()
    tune(search)
    assert tune.said == []
    monkeypatch.setattr(cheap, "train", lambda *_: pytest.fail("all but the failed one are finished"))
    assert [trial.status for trial in tune(search, function="cheap:forgiving", retry_failed=True)] == [
        "finished"
    ] * 3
    assert len(tune.said) == 1


def test_what_a_kill_leaves_between_two_files(tune, work, tmp_path):
    """KerasTuner writes a trial's file, then the oracle's: a kill may come between them."""
    search = search_of("0.01,0.001,0.0001,0.1")
    folder = search.folder(tmp_path)
    oracle = oracle_of(search, folder.parent)
    begun = [oracle.create_trial(name) for name in ("one", "two", "three")]
    state = (folder / "oracle.json").read_bytes()
    oracle.update_trial(begun[0].trial_id, {"validation": 1.0})
    begun[0].status = "COMPLETED"
    oracle.end_trial(begun[0])  # "one" has ended its trial, and the oracle's file does not know yet
    oracle.create_trial("one")  # its next one was never handed out, as far as that file knows
    (folder / "oracle.json").write_bytes(state)
    again = oracle_of(search, folder.parent)
    again.is_alive = lambda tuner_id: tuner_id not in ("one", "two")
    again.reload()
    assert {name: trial.trial_id for name, trial in again.ongoing_trials.items()} == {"three": "0002"}
    handed = [again.create_trial("four"), again.create_trial("five")]
    rates = [trial.hyperparameters.values["learning_rate"] for trial in handed]
    assert rates == [0.001, 0.1], "the trial of the dead, then the first that nobody began"
    assert again.create_trial("three").trial_id == "0002"


def test_files_are_never_half_written(tune, work, monkeypatch):
    search = search_of("0.01,0.001")
    folder = search.folder(work.out)
    oracle = oracle_of(search, folder.parent)
    oracle.create_trial("one")
    before = (folder / "oracle.json").read_bytes()
    monkeypatch.setattr(json, "dumps", lambda *_: "{half")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        oracle.save()
    assert (folder / "oracle.json").read_bytes() == before


def test_the_trial_of_a_dead_worker_is_the_next_ones(work, tmp_path):
    search = search_of("0.01,0.001")
    oracle = oracle_of(search, tmp_path)
    alive = {"one", "two"}
    oracle.is_alive = lambda tuner_id: tuner_id in alive
    first, second = oracle.create_trial("one"), oracle.create_trial("two")
    assert oracle.create_trial("two").trial_id == second.trial_id, "its own again"
    second.status = "FAILED"
    oracle.end_trial(second)
    assert oracle.create_trial("two").status == "IDLE", "one may leave something yet"
    alive.remove("one")
    assert oracle.create_trial("two").trial_id == first.trial_id
    oracle.end_trial(replace_status(first, "FAILED"))
    assert oracle.create_trial("two").status == "STOPPED"
    assert oracle.tuner_ids == set()


def replace_status(trial, status):
    trial.status = status
    return trial
