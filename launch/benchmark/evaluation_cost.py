"""What it costs to evaluate a cell, beside what it costs to train it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from modtf.cell import Evaluation
from modtf.evaluation.evaluator import Evaluator
from modtf.launch.benchmark.measure import cpu_seconds
from modtf.launch.benchmark.programs import step_run
from modtf.models.build import build
from modtf.presets import paper
from modtf.task import Task

FACTOR = 10  # sizes and training steps of the paper are divided by it


def measure_evaluation(
    request: dict[str, Any], dump: Path, tick: Callable[[], object]
) -> list[dict[str, Any]]:
    """One row per variant: CPU seconds of an evaluation and of the training it belongs to."""
    published = Evaluation()
    sizes = replace(published.smaller(FACTOR), lengths=published.lengths, scales=published.scales)
    arch, members = request["arch"], request["members"]
    tasks = [Task(arch, num_rules=request["num_rules"], data_seed=i % 5) for i in range(members)]
    seeds = [i // 5 for i in range(members)]
    steps = paper(arch).training.steps // FACTOR
    rows = []
    for variant in request["variants"]:
        model = build(tasks, variant, request["width"], seeds)
        evaluator = Evaluator(model, tasks, sizes)
        evaluator.sizes = replace(sizes, batches=1, tokens=1, tokens_per_draw=1)
        compilation = cpu_seconds(evaluator.run)
        evaluator.sizes = sizes
        evaluation = cpu_seconds(evaluator.run)
        step = step_run(model)
        step(1)
        training = steps * step(max(2, int(0.3 / step(2))))
        rows.append(
            {
                **{key: request[key] for key in ("arch", "num_rules", "width", "members")},
                "variant": variant,
                "evaluation_s": evaluation,
                "evaluation_compile_s": compilation,
                "training_s": training,
                "evaluation_share": evaluation / training,
            }
        )
        tick()
    return rows
