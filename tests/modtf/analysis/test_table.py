"""The table of `launch/run.py`."""

import numpy as np
import pytest
from simulated_results import World, simulate

from modtf.analysis import Study, results_table, table_note
from modtf.results import VARIANTS, load_results


def one_cell(out, setting="regression", arch="mlp", tasks=2, seeds=2, **changes):
    grid = {"kinds": [(arch, {})], "settings": [setting], "rules": [4], "num_evaluations": 1}
    simulate(out, data_seeds=range(tasks), seeds=range(seeds), **(grid | changes))
    frame = load_results(out)
    return frame[frame["checkpoint"] == "tail"]


def cells(line):
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_rows_and_columns(arch, tmp_path):
    frame = one_cell(tmp_path, arch=arch)
    lines = results_table(frame).splitlines()
    assert [line.split()[0] for line in lines[2:]] == [*VARIANTS, "random"]
    assert cells(lines[0]) == [
        "variant",
        "loss in",
        "loss out",
        "collapse avg",
        "collapse worst",
        "alignment",
        "inverse MI",
        "adaptation",
        "parameters",
        "seconds",
    ]
    assert set(lines[1]) == {"-"}
    assert len(lines[1]) == max(map(len, lines))
    monolithic, random = cells(lines[2]), cells(lines[-1])
    loss = frame.query("variant == 'monolithic' and measure == 'loss' and condition == 'iid'")
    by_task = loss.groupby("data_seed")["value"].mean()
    half = 12.706 * by_task.std() / np.sqrt(2)
    assert monolithic[1] == f"{by_task.mean():.3f} ±{half:.3f}"
    assert monolithic[3:] == ["-"] * 5 + ["35,000", "12"]
    assert random[1:3] == ["0.000", "0.000"]  # uniform use collapses nothing
    assert len(random) == 6


def test_classification_shows_the_error_in_percent(tmp_path):
    lines = results_table(one_cell(tmp_path, "classification")).splitlines()
    assert cells(lines[0])[1:3] == ["error % in", "error % out"]
    assert len(cells(lines[2])[1].partition(" ")[0].partition(".")[2]) == 1


def test_one_task_has_no_interval_and_the_note_says_why(tmp_path):
    frame = one_cell(tmp_path, tasks=1)
    assert "±" not in results_table(frame)
    assert table_note(frame).startswith(
        "mean over 2 models of one task; other tasks may differ, so no interval"
    )


def test_the_note_says_what_the_interval_is_over(tmp_path):
    note = table_note(one_cell(tmp_path, arch="rnn", tasks=3))
    assert note.startswith("mean ±95% interval (Student's t) over 3 tasks, each the mean of its 2 seeds; ")
    assert "smaller is better everywhere." in note
    assert "out: inputs x 2, 30 tokens." in note
    assert "checkpoint: tail." in note


def test_models_that_diverged_are_shown(tmp_path):
    world = World(diverged=(("modular", 0, 1), ("gt_modular", 0, 0), ("gt_modular", 0, 1)))
    lines = results_table(one_cell(tmp_path, world=world)).splitlines()
    assert cells(lines[3])[1].endswith("(1 lost)")
    assert "±" not in cells(lines[5])[1]  # one task is left
    assert cells(lines[5])[1].endswith("(2 lost)")


def test_options_of_a_variant_are_part_of_its_name(tmp_path):
    frame = one_cell(tmp_path, variants=["modular", ("modular", {"modules": 8})])
    lines = results_table(frame).splitlines()
    assert [cells(line)[0] for line in lines[2:4]] == ["modular", "modular (modules=8)"]


def test_a_table_is_of_one_cell(tmp_path):
    frame = one_cell(tmp_path, rules=[2, 8])
    with pytest.raises(ValueError, match="one num_rules, received 2, 8"):
        results_table(frame)
    text = Study.read(tmp_path).table()
    assert text.count("random") == 2
    assert "MLP regression, R = 8, width 32" in text


def test_small_losses_have_more_digits_and_a_column_without_rows_is_a_dash(tmp_path):
    floor = {name: (lambda x: 0.0) for name in VARIANTS}
    world = World(floor=floor, speed=dict.fromkeys(VARIANTS, 6) | {"gt_modular": 8})  # losses of exp(-speed)
    frame = one_cell(tmp_path, world=world)
    lines = results_table(frame).splitlines()
    shown = [cells(line)[1].partition(" ")[0] for line in lines[2:6]]
    assert {len(text.partition(".")[2]) for text in shown} == {5}
    assert shown[-1].startswith("0.0003")
    assert cells(lines[3])[3].count(".") == 2  # of a measure: three digits, as before
    assert len(cells(lines[3])[3].partition(" ")[0].partition(".")[2]) == 3
    inside = frame[frame["condition"] != "scale2"]
    assert [cells(line)[2] for line in results_table(inside).splitlines()[2:6]] == ["-"] * 4
