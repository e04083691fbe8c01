"""Which cells get what was found, and what is said where nothing was."""

from dataclasses import replace

import pytest
from cheap import search_of

from modtf.tuning import find_best, use_best
from modtf.tuning.oracles import RUNNING


def test_cells_get_the_best_of_their_variant(tune, work):
    modular, monolithic = search_of("0.1,0.001,0.01"), search_of("0.1,0.01", variant="monolithic")
    tune(modular)
    tune(monolithic)
    cells = [replace(one.base, members=((5, 5),)) for one in (monolithic, modular)]
    cells[1] = replace(cells[1], protocol=cells[1].protocol.replace(steps=7))
    used, found = use_best(work.out, cells)
    assert [cell.protocol.training.learning_rate for cell in used] == [0.01, 0.001]
    assert [cell.protocol.training.steps for cell in used] == [90, 7], "nothing else is changed"
    assert [cell.members for cell in used] == [((5, 5),)] * 2
    assert str(found[1]) == f"learning_rate=0.001 (best of 3 trials, {modular.name})"
    assert found[1].objective == pytest.approx(0.1)


def test_what_was_tuned_at_this_size_counts_first(tune, work):
    """What was tuned at another size serves where there is nothing else."""
    small, large = search_of("0.01,0.1"), search_of("0.001,0.1", width=8)
    tune(small)
    assert find_best(work.out, large.base).values == {"learning_rate": 0.01}
    tune(large)
    assert find_best(work.out, large.base).values == {"learning_rate": 0.001}
    assert find_best(work.out, small.base).values == {"learning_rate": 0.01}
    with pytest.raises(
        ValueError, match="modular of mlp_regression was tuned in ways that cannot be compared"
    ):
        find_best(work.out, replace(small.base, width=16))


def test_searches_in_one_way_are_compared_others_are_not(tune, work):
    tune(search_of("0.1,0.01"))
    tune(search_of("0.001:0.002", "random"), 2)
    assert 0.001 <= find_best(work.out, search_of("1").base).values["learning_rate"] <= 0.002
    tune(search_of("0.1,0.01", **{"training.steps": 60}))
    with pytest.raises(ValueError, match=r"cannot be compared \(.*_grid-.*\)\. Tune it at R = 2 and width 4"):
        find_best(work.out, search_of("1").base)


def test_only_trials_that_were_trained_to_the_end_count(tune, work):
    search = search_of("1e-5:1e-1:log", "hyperband")
    tune(search, 9)  # the short ones of its first round
    with pytest.raises(ValueError, match="no trial of modular of mlp_regression has finished"):
        find_best(work.out, search.base)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variant": "top_k"}, "nothing was found for top_k of mlp_regression, only for modular of mlp_regr"),
        ({"setting": "classification"}, "nothing was found for modular of mlp_classification, only for"),
        ({"router.modules": 3}, r"nothing was found for modular of mlp_regression \(modules=3\), only"),
    ],
)
def test_where_nothing_was_found(tune, work, change, words):
    tune(search_of("0.01,0.1"))
    with pytest.raises(ValueError, match=words):
        find_best(work.out, search_of("1", **change).base)


def test_where_all_diverged_or_failed(tune, work):
    search = search_of("0.5,0.05")
    assert [trial.status for trial in tune(search)] == ["finished", "failed"]
    with pytest.raises(ValueError, match=r"has finished, or all diverged.*widen its space"):
        find_best(work.out, search.base)


def test_a_file_that_cannot_be_read_is_said(tune, work):
    search = search_of("0.01,0.1")
    tune(search)
    (search.folder(work.out) / "trial_0000" / "trial.json").write_text(f'{{"status": "{RUNNING}"')
    with pytest.raises(ValueError, match=r"trial_0000.trial\.json is not what tuning writes"):
        find_best(work.out, search.base)
