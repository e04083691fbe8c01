"""The study of docs/study.md: the paper's comparison at one width, 56 cells, seven core-hours.

    python launch/sweep.py --study=first --out=studies/first
    python launch/report.py --results=studies/first --out=report --claims

Width 32, both settings, the four published variants, one seed a task. mlp: R = 2, 8, 32, ten tasks. mha
(search v1) and rnn: R = 2, 8, five tasks. This is not the published protocol. It has fewer steps at a higher,
constant learning rate, the same for all variants of a task type, chosen from measured step times before any
run. The last and the best weights are evaluated on the published number of batches, the mlp with all
published sizes. In mha and rnn the activation matrix uses 10^6 tokens, `adaptation` 100 of 10^4.

The published variants at R = 8 in regression are also cells of the study `routers`. With the same --out they
are trained once.
"""

from typing import Any

from modtf.studies.grid import Grid, grid
from modtf.studies.load import register_study
from modtf.tasks.cell import Cell

SETTINGS = ["regression", "classification"]
RULES = {"mlp": (2, 8, 32), "mha": (2, 8), "rnn": (2, 8)}
TASKS = {"mlp": 10, "mha": 5, "rnn": 5}
STEPS = {"mlp": 25_000, "mha": 5_000, "rnn": 3_000}
LEARNING_RATE = {"mlp": 3e-4, "mha": 1e-3, "rnn": 1e-3}
SIZES = {
    "batches": 100,
    "tokens": 1_000_000,
    "draws": 100,
    "tokens_per_draw": 10_000,
}  # sizes of the last evaluation
EXAMPLES = {"mlp": 1000, "mha": 256, "rnn": 256}  # per batch of the last evaluation


def base(arch: str, **changes: Any) -> Grid:
    """Return the grid that all cells of a family share: width, steps, learning rate, sizes of evaluations.

    `changes` are fields of the protocol, such as `**{"training.steps": 100}`."""
    protocol: dict[str, Any] = {"training.steps": STEPS[arch], "training.schedule": None}
    protocol |= {"training.learning_rate": LEARNING_RATE[arch], "training.evaluations": 20}
    protocol |= {f"evaluation.{name}": size for name, size in SIZES.items()}
    protocol |= {f"evaluation.{name}": EXAMPLES[arch] for name in ("batch_size", "activation_batch_size")}
    return grid(arch=arch, width=32, preset="quick", **protocol | changes)


@register_study("first")
def cells() -> list[Cell]:
    """Return every family x setting x published variant."""
    return sum(
        (
            grid(num_rules=list(rules), tasks=TASKS[arch], seeds=1)
            * base(arch)
            * grid(setting=SETTINGS)
            * grid(variant=["monolithic", "modular", "modular_op", "gt_modular"])
            for arch, rules in RULES.items()
        ),
        Grid([]),
    ).cells()
