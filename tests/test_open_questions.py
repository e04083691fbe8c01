"""The scripts of docs/open_questions.md: examples read from learning curves, and answers of all questions."""

import draw_open_questions
import numpy as np
import open_questions
import pandas as pd
import pytest
from learning_curves import examples_needed, examples_of

import modtf
from modtf.tasks.families import FAMILIES

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
