"""The cells that get tuned values, and the message if there are none."""

from dataclasses import replace

import numpy as np
import pytest
from cheap import search_of

from modtf.base.space import parse_axis
from modtf.tuning import Search, trials, use_best
from modtf.tuning.search import TRIALS
from modtf.tuning.trials import trials_of


def best(tune, cell):
    """Return what was found for a cell."""
    return use_best(tune.out, [cell])[1][0]


def test_cells_get_the_best_of_their_variant(tune):
    modular, monolithic = search_of("0.1,0.001,0.0001"), search_of("0.1,0.01", variant="monolithic")
    tune(modular)
    tune(monolithic)
    cells = [replace(one.base, members=((5, 5),)) for one in (monolithic, modular)]
    cells[1] = replace(cells[1], protocol=cells[1].protocol.replace(steps=7))
    used, found = use_best(tune.out, cells)
    assert [cell.protocol.training.learning_rate for cell in used] == [0.01, 0.001]
    assert [cell.protocol.training.steps for cell in used] == [90, 7], "nothing else is changed"
    assert [cell.members for cell in used] == [((5, 5),)] * 2
    assert str(found[1]) == f"learning_rate=0.001 (best of 3 trials, {modular.name})"
    assert found[1].objective == pytest.approx(0.2), "of the worse task"


def test_a_best_value_at_the_edge_of_its_range_is_said(tune):
    """A wider search that finds the same value takes the remark back."""
    narrow, wide = search_of("0.1,0.01"), search_of("0.1,0.01,0.0001")
    tune(narrow)
    found = str(best(tune, narrow.base))
    assert found.endswith(
        f"{narrow.name}); learning_rate at the edge of its range; tune again with a wider --space"
    )
    space = {
        "learning_rate": parse_axis("0.1,0.01"),
        "router.rate": parse_axis("0.1,0.2"),
        "router.k": parse_axis("2,4"),
    }
    both = Search(narrow.base, space, "grid").edge_note(
        {"learning_rate": 0.1, "router.rate": 0.2, "router.k": 2}
    )
    assert both.startswith("learning_rate and rate at the edge of their ranges; ")
    tune(wide)
    assert "edge" not in str(best(tune, narrow.base))


def test_the_worst_task_chooses(tune, monkeypatch):
    """At 0.1 one task learns best, and the other not at all."""
    search, losses = search_of("0.1,0.01,0.001"), {0.1: [0.0, 2.0], 0.01: [1.2, 1.2], 0.001: [1.3, 1.3]}
    tune(search)
    monkeypatch.setattr(
        trials, "validation", lambda cell, folder: np.array(losses[cell.protocol.training.learning_rate])
    )
    assert best(tune, search.base).values == {"learning_rate": 0.01}


@pytest.mark.parametrize(
    ("rates", "half", "chosen"),
    [("0.1,0.004,0.0001", 6.325e-4, 6.325e-4), ("0.01,0.001", 3.162e-4, 0.001), ("0.001", None, 0.001)],
)
def test_a_half_step_below_the_best_rate_is_tried_once(tune, rates, half, chosen):
    search = search_of(rates)
    tune(search)
    cells = trials.add_half_steps([search], tune.out)
    assert [cell.protocol.training.learning_rate for cell in cells] == [half] * (half is not None)
    tune(search)  # runs what the list holds
    assert best(tune, search.base).values == {"learning_rate": chosen}
    assert not trials.add_half_steps([search], tune.out)


def test_what_was_tuned_at_this_size_counts_first(tune):
    """Values tuned at another size serve if there are no others."""
    small, large = search_of("0.01,0.1"), search_of("0.001,0.1", width=8)
    tune(small)
    assert best(tune, large.base).values == {"learning_rate": 0.01}
    tune(large)
    assert best(tune, large.base).values == {"learning_rate": 0.001}
    assert best(tune, small.base).values == {"learning_rate": 0.01}
    with pytest.raises(
        ValueError, match="modular of mlp_regression was tuned in several ways that cannot be"
    ):
        best(tune, replace(small.base, width=16))


def test_a_study_of_several_rates_does_not_become_one_cell_twice(tune):
    tune(search := search_of("0.01,0.1"))
    rates = [replace(search.base, protocol=search.base.protocol.replace(learning_rate=r)) for r in (1e-3, 1)]
    with pytest.raises(ValueError, match="modular of mlp_regression has several cells, which would all get"):
        use_best(tune.out, rates)


def test_a_search_of_this_size_without_a_result_is_not_replaced_by_another_size(tune):
    tune(search_of("0.001,0.1"))
    large = search_of("0.5", width=8)  # diverges
    tune(large)
    with pytest.raises(ValueError, match="no trial of modular of mlp_regression has finished without"):
        best(tune, large.base)


def test_trials_without_a_result_are_said(tune):
    search = search_of("0.001,0.05,0.01,0.1")  # 0.05 fails
    tune(search, shard="0/2")
    finished = sum(trial.status == "finished" for trial in trials_of(search, tune.out))
    assert 0 < finished < 4
    words = "1 other" if finished == 3 else f"{4 - finished} others"
    assert f"{words} failed or not finished, {search.name}" in str(best(tune, search.base))


def test_searches_in_one_way_are_compared_others_are_not(tune):
    tune(search_of("0.1,0.01"))
    tune(search_of("0.001:0.002", "random"), limit=2)
    assert 0.001 <= best(tune, search_of("1").base).values["learning_rate"] <= 0.002
    tune(search_of("0.1,0.01", **{"training.steps": 60}))
    with pytest.raises(ValueError, match=r"cannot be compared \(.*_grid-.*\)\. Tune it at R = 2 and width 4"):
        best(tune, search_of("1").base)


def test_only_trials_that_were_trained_to_the_end_count(tune):
    search = search_of("1e-5:1e-1:log", "hyperband")
    tune(search, limit=9)  # the short ones of its first round
    with pytest.raises(ValueError, match="no trial of modular of mlp_regression has finished"):
        best(tune, search.base)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variant": "top_k"}, "it holds no search of top_k of mlp_regression, only of modular of mlp_regr"),
        ({"setting": "classification"}, "it holds no search of modular of mlp_classification, only of"),
        ({"router.modules": 3}, r"it holds no search of modular of mlp_regression \(modules=3\), only"),
    ],
)
def test_where_nothing_was_found(tune, change, words):
    tune(search_of("0.01,0.1"))
    with pytest.raises(ValueError, match=words):
        best(tune, search_of("1", **change).base)


def test_where_all_diverged_or_failed_or_a_file_cannot_be_read(tune):
    search = search_of("0.5,0.05")
    assert [trial.status for trial in tune(search)] == ["finished", "failed"]
    with pytest.raises(ValueError, match=r"has finished without diverging.*widen its space"):
        best(tune, search.base)
    (search.folder(tune.out) / TRIALS).write_text('[{"learning_rate": 0.0')
    with pytest.raises(ValueError, match=r"trials\.json is not a file that tuning wrote"):
        best(tune, search.base)


def test_options_at_their_defaults_are_those_left_out(tune):
    given = search_of("0.01,0.1", variant="switch", **{"router.strength": 0.01})
    other = search_of("0.001", variant="switch", **{"router.strength": 0.5})
    tune(given, other)
    left_out = search_of("1", variant="switch").base
    assert best(tune, left_out).values == {"learning_rate": 0.01}
    assert best(tune, other.base).values == {"learning_rate": 0.001}
    with pytest.raises(ValueError, match=r"it holds no search of switch .*\(strength=0.3\)"):
        best(tune, search_of("1", variant="switch", **{"router.strength": 0.3}).base)


def test_an_option_that_a_cell_gives_is_not_replaced(tune):
    """Not even where it gives the default."""
    search = Search(search_of("1", variant="switch").base, {"router.strength": parse_axis("0.1,0.2")}, "grid")
    tune(search)
    assert best(tune, search.base).values["router.strength"] == 0.1
    given = search_of("1", variant="switch", **{"router.strength": 0.01}).base
    with pytest.raises(
        ValueError, match=r"it holds no search of switch .*\(strength=0.01\), only of switch "
    ):
        best(tune, given)


def test_a_rate_that_was_fixed_is_used_too(tune):
    fixed = search_of("1", variant="top_k", **{"training.learning_rate": 0.01})
    search = Search(fixed.base, {"router.k": parse_axis("1,2")}, "grid")
    tune(search)
    (used,), (found,) = use_best(tune.out, [search_of("1", variant="top_k").base])
    assert (used.protocol.training.learning_rate, used.router) == (0.01, {"k": 1})
    assert str(found).startswith("learning_rate=0.01, k=1 (best of 2 trials; 1 other with the same score, ")
