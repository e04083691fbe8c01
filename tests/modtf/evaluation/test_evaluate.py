"""`modtf.evaluate`: names, splits, seeds, and errors."""

import numpy as np
import pytest

import modtf
from modtf import Evaluation, Population, Task, build
from modtf.families import with_free_rules
from modtf.metrics import activation_measures

MEASURES = {measure.name for measure in activation_measures()}


def built(*args, **options):
    """A model without XLA compilation, which would take seconds."""
    model = build(*args, **options)
    model.compile(jit_compile=False)
    return model


def test_the_oracle_is_perfect_and_the_monolithic_has_no_measures(small_sizes):
    scores = modtf.evaluate(build(Task(), "gt_modular", 4), Task(), evaluation=small_sizes)
    assert set(scores) == {"loss", "loss_scale2"} | MEASURES
    assert all(abs(scores[name]) < 1e-6 for name in MEASURES)
    (scores,) = modtf.evaluate(built([Task()], "monolithic", 4, [0]), [Task()], evaluation=small_sizes)
    assert all(np.isnan(scores[name]) for name in MEASURES)


@pytest.mark.parametrize(
    "arch", [pytest.param(arch, marks=[pytest.mark.slow] * (arch != "mha")) for arch in with_free_rules()]
)
def test_every_condition_stands_under_its_name(arch):
    task = Task(arch, "classification")
    few = Evaluation(batches=1, batch_size=4, tokens=160, draws=1, tokens_per_draw=40)
    scores = modtf.evaluate(built(task, "gt_modular", 8), task, evaluation=few)
    expected = {c.of(measure) for measure in ("loss", "error") for c in task.family.conditions}
    assert set(scores) == expected | MEASURES


def test_splits_and_seeds_are_other_data_for_every_task_of_a_population(small_sizes):
    tasks = [Task(), Task(data_seed=1)]
    model = built(tasks, "modular", 4, [3, 4])
    base = {"task": tasks, "evaluation": small_sizes}
    others = {"split": "validation"}, {"seed": 1}, {"task": Population.of(tasks, [1, 2])}
    found = [modtf.evaluate(model, **base), *(modtf.evaluate(model, **{**base, **o}) for o in others)]
    assert found[0] == found[3]
    assert len({scores["loss"] for one in found for scores in one}) == 6


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (Task(num_rules=3), "built for mlp_regression_r2_task0, received mlp_regression_r3_task0. Give the"),
        ([Task()], "built for mlp_regression_r2_task0, received a list of 1 tasks like mlp_regression_r2"),
        (Task("rnn"), "received rnn_regression_r2_task0"),
    ],
)
def test_a_task_of_another_shape_is_refused(task, message):
    with pytest.raises(ValueError, match=message):
        modtf.evaluate(build(Task(), "modular", 4), task)
