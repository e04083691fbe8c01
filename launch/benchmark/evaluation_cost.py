"""What it costs to evaluate a cell, beside what it costs to train it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from modtf.evaluation.evaluator import Evaluator
from modtf.launch.benchmark.cells import cell_columns, model_of, population_of
from modtf.launch.benchmark.measure import cpu_seconds
from modtf.launch.benchmark.programs import step_run
from modtf.protocol import Protocol

FACTOR = 10  # sizes and training steps of the paper are divided by it


def measure_evaluation(request: dict[str, Any], tick: Callable[[], object]) -> list[dict[str, Any]]:
    """One row per variant: CPU seconds of an evaluation and of the training it belongs to."""
    population = population_of(request)
    published = Protocol.published(population.task)
    sizes = published.evaluation.smaller(FACTOR, None)
    tiny = replace(sizes, batches=1, tokens=1, tokens_per_draw=1)
    steps = published.training.steps // FACTOR
    rows = []
    for variant in request["variants"]:
        model = model_of(request, variant, population)
        evaluator = Evaluator(model, population, sizes)
        compilation = cpu_seconds(evaluator.on(tiny, "test").run)
        evaluation = cpu_seconds(evaluator.run)
        step = step_run(model)
        step(1)
        training = steps * step(max(2, int(0.3 / step(2))))
        rows.append(
            {
                **cell_columns(request, variant),
                "evaluation_s": evaluation,
                "evaluation_compile_s": compilation,
                "training_s": training,
                "evaluation_share": evaluation / training,
            }
        )
        tick()
    return rows
