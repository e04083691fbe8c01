"""The scripts of docs/: rank agreement, models under other routings, learning curves, judged analyses."""

import runpy
from dataclasses import replace
from pathlib import Path

import draw_open_questions
import draw_seeds
import misrouting
import numpy as np
import open_questions
import pandas as pd
import pytest
import seeds
from learning_curves import examples_needed, examples_of

import modtf
from modtf import Evaluation, Training, run_cell
from modtf.results.load import load_results
from modtf.tasks.families import FAMILIES
from modtf.tasks.protocol import Protocol

TASKS, SEEDS = 8, 5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def ranks(rng):
    return rng.permuted(np.tile(np.arange(SEEDS), (TASKS, 1)), axis=1).astype(float)


def of_tasks(badness, loss):
    """Return tasks that differ far more than their seeds do."""
    return {task: np.stack([badness[task], 10.0**task * (1 + 0.01 * loss[task])]) for task in range(TASKS)}


def test_seeds_are_ranked_within_a_task(ranks):
    found = draw_seeds.agreement(of_tasks(ranks, ranks))
    assert (found.value, found.num_tasks) == (1.0, TASKS)
    assert draw_seeds.agreement(of_tasks(ranks, -ranks)).value == -1.0
    assert draw_seeds.chance(of_tasks(ranks, -ranks), draws=999) == 0.001


@pytest.mark.slow
def test_chance_is_uniform_without_a_relation(rng, ranks):
    """The p of unrelated rankings is below a tenth in a tenth of them; a binomial interval of 99.9%."""
    p = [draw_seeds.chance(of_tasks(ranks, rng.permuted(ranks, axis=1)), draws=99) for _ in range(200)]
    assert 7 <= np.sum(np.array(p) <= 0.1) <= 36


def test_everything_is_equal_but_the_seed():
    cells = seeds.cells()
    assert sum(len(cell.members) for cell in cells) == 175
    for cell in cells:
        assert set(pd.DataFrame(cell.members).groupby(0).size()) == {SEEDS}
    assert {cell.protocol.training.schedule for cell in cells} == {"cosine"}


SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "docs" / "scripts" / "evaluate_misrouting.py"))
SIZES = Evaluation(
    batches=2, batch_size=64, tokens=640, activation_batch_size=64, draws=1, tokens_per_draw=64
)


def routed(arch, **router):
    """The cell of the study whose routing is given so."""
    cells = (cell for cell in misrouting.misrouting() if cell.task.arch == arch)
    return next(cell for cell in cells if cell.router == router)


def test_routings():
    rules = {"matrix": "spread", "amount": 0.0, "hard": False}
    asked = SCRIPT["asked"]
    assert len(asked(routed("mlp", **rules))) == 20
    assert len(asked(routed("rnn", **rules))) == 8
    drawn = {"matrix": "block", "amount": 2, "hard": True}
    assert asked(routed("rnn", **drawn)) == [{**drawn, "hard": False}, rules]
    assert not asked(routed("mlp", **{**drawn, "hard": False}))


@pytest.mark.slow
def test_what_was_trained_is_asked_again(tmp_path):
    cell = routed("mlp", matrix="spread", amount=0.0, hard=False)
    cell = replace(cell, width=8, members=cell.members[:2])
    cell = replace(cell, protocol=Protocol(Training(steps=4, batch_size=8, evaluations=1), SIZES))
    table = SCRIPT["crossed"](cell, run_cell(cell, tmp_path, verbose=False))
    rows = load_results(tmp_path).query("measure == 'loss' and condition == 'iid' and checkpoint == 'last'")
    own = table.query("asked_matrix == 'spread' and asked_amount == 0 and measure == 'loss'")
    assert own["value"].to_list() == pytest.approx(rows["value"].to_list(), rel=1e-5)
    assert len(table.groupby(["asked_matrix", "asked_amount", "asked_hard"])) == 20


LEVELS = {"monolithic": 4.0, "modular": 2.0, "modular_op": 1.2, "gt_modular": 1.0, "balanced": 1.5}


@pytest.mark.parametrize(
    ("losses", "target", "needed"),
    [
        ([0.4, 0.2, 0.1], 0.2, 2000.0),
        ([0.4, 0.2, 0.1], 0.1 * 2**0.5, 4000.0),  # halfway between the logarithms
        ([0.4, 0.2, 0.1], 0.5, 0.0),
        ([0.4, 0.2, 0.1], 0.05, np.inf),
        ([0.4, 0.5, 0.1], 0.4, 1000.0),
        ([0.4, 0.5, 0.1], 0.1, 8000.0),  # a curve need not fall
    ],
)
def test_examples_needed(losses, target, needed):
    assert examples_needed([1000, 2000, 8000], losses, target) == pytest.approx(needed)


def test_examples_where_loss_falls_with_the_root_of_the_examples():
    """Twice the loss needs four times the examples; bounds are named where the curves end."""
    rows = [
        {"variant": variant, "data_seed": task, "num_train": size, "value": level * size**-0.5 * (1 + task)}
        for variant, level in LEVELS.items()
        for task in range(3)
        for size in (100, 1000, 10_000)
    ]
    needed, matched = (table.set_index(["variant", "num_train"]) for table in examples_of(pd.DataFrame(rows)))
    assert needed.loc[("modular", 100), "text"] == "4.00 (4.00 to 4.00)"
    assert needed.loc[("monolithic", 1000), "text"] == "more than 10 (bound in 3 of 3 tasks)"
    assert np.isnan(needed.loc[("monolithic", 1000), "low"])
    assert matched.loc[("modular", 10_000), "text"] == "2,500 (2,500 to 2,500)"
    assert matched.loc[("modular", 100), "text"] == "less than 100 (bound in 3 of 3 tasks)"


def made_results():
    """Return results of the study in which variants have the losses `LEVELS`, times a number per task."""
    rows = []
    for cell in open_questions.open_questions():
        options = cell.task.named_options
        shared = {
            "arch": cell.task.arch, "setting": "regression", "num_rules": 8, "width": 32, "steps": 10,
            "task_options": ",".join(f"{name}={value}" for name, value in options.items()),
            "model_options": ",".join(f"{name}={value}" for name, value in cell.router.items()),
            "num_modules": 1 if cell.variant == "monolithic" else 8, "variant": cell.variant, "place": "",
            "num_parameters": 1, "protocol": "p", "folder": cell.hash,
        }  # fmt: skip
        level = LEVELS[cell.variant] * (2.0 if cell.router.get("balance") == "bias" else 1.0)
        growing = {"iid": 1, FAMILIES[cell.task.arch].headline: 3, "outside": 4, "len50": 5, "withheld": 2}
        growing |= {"frequent": 1, "rare": 2, "clean": 1}
        for task, seed in cell.members[:3]:
            loss = (
                level * (1 + task / 100) * (options.get("num_train", 1e5) / 1e5) ** -0.5 * (1 + 0.01 * seed)
            )
            least = options.get("noise", 0.0) * (2 / np.pi) ** 0.5
            found = {("loss", condition): times * loss for condition, times in growing.items()}
            found["loss", "iid"] += least
            found |= {
                ("loss_gap", "iid"): loss,
                ("irreducible_loss", "iid"): least,
                ("input_bits", "iid"): 2.0,
            }
            found |= {(name, "iid"): 0.5 for name in draw_open_questions.MEASURES}
            rows += [
                {**shared, "data_seed": task, "seed": seed, "checkpoint": checkpoint, "measure": measure,
                 "condition": condition, "value": value}
                for checkpoint in ("tail", "last", "best") for (measure, condition), value in found.items()
            ]  # fmt: skip
    return pd.DataFrame(rows)


def test_known_losses_give_known_answers():
    study = modtf.Study(made_results())
    answers = {name: question(study) for name, question in draw_open_questions.QUESTIONS.items()}
    lines = {
        name: " ".join([*tables, *tables.values()]).replace("\n", " ")
        for name, (_, tables) in answers.items()
    }
    same, twice = ("1.00 (1.00 to 1.00)", "2.00 (2.00 to 2.00) *")
    assert f"| MLP | 1.5 | {same} | {twice} | {same} | {twice} | {same} | {twice} |" in lines["unequal"]
    looks = answers["unequal"][0]
    assert (len(looks), (looks["p_corrected"] < 0.05).sum()) == (24, 12)
    assert "| MLP | 100,000 | best | 1.21 " in lines["finite"]
    assert (
        "| RNN | modular | 2.00 (2.00 to 2.00) | 2.00 (2.00 to 2.00) * | 2.00 (2.00 to 2.00) * |"
        in (lines["withheld"])
    )
    assert "allows no loss below 0.239" in lines["noise"]
    assert "| MLP | gt_modular | 1.45 " in lines["noise"]
    assert "gt_modular, modular, monolithic | 2.00 (2.00 to 2.00) | 4.00" in lines["rules"]
    assert "| MLP | modular | 4.00 (4.00 to 4.00) | 5.00" in lines["harder"]
