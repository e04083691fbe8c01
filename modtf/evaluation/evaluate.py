"""`modtf.evaluate`."""

from collections.abc import Sequence
from typing import Any

import keras

from modtf.checks import check_type
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.outputs import check_is_model
from modtf.population import Population
from modtf.protocol import Evaluation
from modtf.task import Task


def evaluate(
    model: keras.Model,
    task: Task | Sequence[Task] | Population,
    *,
    evaluation: Evaluation | None = None,
    split: str = "test",
    seed: int = 0,
    data: str = "auto",
) -> Any:
    """Measures a model in and out of distribution, and its collapse and specialisation.

    Args:
        model: any `keras.Model` that takes features and returns `{"target", "activation"}`, or
            `{"target"}` alone, which is measured by performance.
        task: its task, or the list of tasks of a population.
        evaluation: how much data to read; `Evaluation()` by default.
        split: "test" or "validation".
        seed: of the evaluation stream.
        data: where it is made: "host", "device" (by the compiled program itself), or "auto", the device on an
            accelerator and the host on a CPU.

    Returns:
        A dict of floats (a list of dicts, one per member, for a population): "loss" (and "error" in
        percent for classification), each also under every other condition of the family: "loss_scale2"
        (inputs times 2), "loss_len30" (sequences of 30), "loss_len30_scale2"; the measures of
        `modtf.metrics`; and the router's penalty, if it has one, under its name.

    Raises:
        ValueError: on a model of another task, with other outputs or that fails, an unknown split or
            condition.

    Example:
        >>> scores = modtf.evaluate(model, task)
        >>> scores["loss"], scores["loss_scale2"], scores["alignment"]
    """
    check_is_model(model)
    population = Population.of(task)
    if evaluation is None:
        evaluation = Evaluation()
    check_type("evaluation", evaluation, Evaluation)
    scores = Evaluator(model, population, evaluation, split, seed, data).run()
    members = [scores.member(i) for i in range(len(population))]
    return members if population.has_axis else members[0]
