"""The definition of a search, and the cells of its trials."""

from pathlib import Path

import pandas as pd
import pytest
from cheap import search_of

from modtf.base.space import parse_axis
from modtf.results.schema import HISTORY_COLUMNS
from modtf.tuning import Search, load_trials
from modtf.tuning.search import DEFINITION, find_searches, in_words, with_values
from modtf.tuning.trials import validation


def test_a_trial_is_a_cell_with_other_values():
    search = search_of("1e-5:1e-2:log", **{"training.batch_size": 7})
    space = {**search.space, "router.k": parse_axis("2,4"), "model.hidden": parse_axis("8:16")}
    search = Search(search.base, space, "random")
    cell = search.cell_of({"learning_rate": 0.00012345678, "router.k": 4, "model.hidden": 9})
    assert cell.protocol == search.base.protocol.replace(learning_rate=0.0001235)
    assert (cell.router, cell.model) == ({"k": 4}, {"hidden": 9})
    values = search.values_of({"learning_rate": 1e-5, "router.k": 2, "model.hidden": 8})
    assert in_words(values) == "learning_rate=1e-05, k=2, hidden=8"
    kept = with_values(cell, {"router.j": 1})
    assert kept.router == {"k": 4, "j": 1}


def test_short_trials_of_hyperband_evaluate_at_even_steps():
    base = search_of("0.1,0.2", **{"training.steps": 1000, "training.evaluations": 10})
    values = {"learning_rate": 0.1}
    steps = [base.cell_of({**values, "tuner/epochs": n}).protocol.training.steps for n in (1, 3, 9)]
    assert steps == [100, 300, 1000]
    tiny = search_of("0.1,0.2", **{"training.steps": 9, "training.evaluations": 10})
    assert tiny.cell_of({**values, "tuner/epochs": 1}).protocol.training.steps == 1


def test_a_search_is_read_as_it_was_written(tmp_path):
    search = search_of("1e-5:1e-2:log", "random")
    search.write(tmp_path, [])
    assert find_searches(tmp_path) == [search]
    others = [search_of("1e-5:1e-1:log", "random"), search_of("1e-5:1e-2:log", "bayesian")]
    others += [search_of("1e-5:1e-2:log", "random", width=8), Search(search.base, search.space, "random", 2)]
    assert len({search.name, *(other.name for other in others)}) == 5


def test_folders_without_a_search(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no search.*Give the folder that was --out"):
        find_searches(tmp_path / "none")
    search_of("0.1,0.2").write(tmp_path, [])
    search_of("0.1,0.2").folder(tmp_path).joinpath(DEFINITION).write_text("{}")
    with pytest.raises(ValueError, match=r"search\.json does not describe a search of this version"):
        find_searches(tmp_path)


@pytest.mark.parametrize(
    ("start", "values"), [(0, (90, 80, 70, 2, 4)), (100, (90, 80, 70, 3))], ids=["", "after a warm start"]
)
def test_validation_is_the_end_of_training_and_never_the_test(tmp_path, start, values):
    """The mean over as many evaluations as the checkpoint "tail" has, in the cell's order of members."""
    cell = search_of("0.1", members=((1, 0), (0, 0)), **{"training.steps": 40}).base
    rows = [
        (step, d, 0, measure, condition, "", value + d + (measure == "error") + (condition == "rare"))
        for measure in ("loss", "error")
        for condition in ("iid", "rare")  # rows of rare rules do not count
        for d in (0, 1)
        for step, value in enumerate(values, start)
    ]
    pd.DataFrame(rows, columns=list(HISTORY_COLUMNS)).to_csv(tmp_path / "history.csv", index=False)
    (tmp_path / "results.csv").write_text("what the test said\n")
    assert validation(cell, tmp_path).tolist() == [4.0, 3.0]
    other = search_of("0.1", members=((2, 0),)).base
    with pytest.raises(ValueError, match="does not belong to its cell"):
        validation(other, tmp_path)


def test_trials_as_a_table(tune):
    search = search_of("0.01,0.001")
    tune(search)
    frame = load_trials(tune.out)
    assert len(frame) == 4
    assert frame.groupby("learning_rate")["value"].mean().round(6).to_dict() == {0.001: 0.1, 0.01: 1.1}
    assert set(frame["variant"]) == {"modular"}
    assert frame[["data_seed", "seed"]].drop_duplicates().to_numpy().tolist() == [[0, 0], [1, 0]]
    for folder in frame["folder"]:
        assert Path(folder, "history.csv").exists()
