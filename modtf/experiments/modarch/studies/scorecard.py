"""The tasks and reference results of `modtf scorecard`: 35 cells, 40 minutes of one core; 16 for --smoke.

    python launch/sweep.py --study=scorecard --out=studies/scorecard  # --study=scorecard_smoke: a few steps
    python docs/scripts/draw_scorecard.py studies/scorecard studies/scorecard_smoke

Version modtf-1: regression of the mlp and the rnn, R = 8 rules, width 32, one seed, tasks 100 to 104, which
no other study uses. Nothing here may change under the name of a version: every card contains the hash, and a
test checks it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modtf.cell import Cell
from modtf.protocol import Evaluation, Protocol, Training
from modtf.studies.load import register_study
from modtf.task import Task, science_hash

NUM_RULES, WIDTH, TASKS = 8, 32, tuple(range(100, 105))
#: in addition to performance in and out of distribution
MEASURES = ("collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation")
#: hashes of the first test examples of the five tasks; other data need another version
DATA = {"mlp": "6a6f78db56b22458", "rnn": "4d0ae48ce7103017"}
PROTOCOLS = {
    "mlp": Protocol(
        Training(steps=10_000, learning_rate=3e-4, batch_size=256, evaluations=10, tail=10),
        Evaluation(
            batches=100, batch_size=1000, tokens=100_000, activation_batch_size=1000, draws=100,
            tokens_per_draw=2_560, conditions=("scale2",),
        ),
    ),
    "rnn": Protocol(
        Training(steps=3_000, learning_rate=3e-3, batch_size=64, clipnorm=1.0, evaluations=10, tail=10),
        Evaluation(
            batches=20, batch_size=256, tokens=51_200, activation_batch_size=256, draws=20,
            tokens_per_draw=2_560, conditions=("len30_scale2",),
        ),
    ),
}  # fmt: skip
#: with default options, except the steps of `annealed`; `balanced` is `modular` then, so it is left out
ROUTERS = (
    "monolithic", "modular", "modular_op", "gt_modular", "uniform", "temperature", "top_k", "switch",
    "cosine", "z_loss", "bias_balanced", "annealed", "gumbel", "expert_choice",
)  # fmt: skip
ORACLE, CURVE = "gt_modular", "clamped"
AMOUNTS = (0.25, 0.5, 0.75, 0.875)  # of the curve, in the mlp only; the oracle is the point at 0


@dataclass(frozen=True)
class Frozen:
    """A version: the cells that are trained under its name."""

    version: str = "modtf-1"
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: PROTOCOLS)
    routers: tuple[str, ...] = ROUTERS  # of its reference results

    def cell(self, arch: str, variant: str, **options: Any) -> Cell:
        """Return the cell of a variant on a family's tasks; `options` are `router`, `model`, `trainer`."""
        members = tuple((task, 0) for task in TASKS)
        return Cell(
            Task(arch, "regression", NUM_RULES), WIDTH, variant, members, self.protocols[arch], **options
        )

    @property
    def hash(self) -> str:
        """Return the hash of the tasks, data and protocols."""
        cells = [self.cell(arch, ORACLE).to_dict() for arch in self.protocols]
        return science_hash([self.version, MEASURES, DATA, cells])

    def reference(self) -> list[Cell]:
        """Return the reference cells; those that most comparisons need come first."""
        cells = []
        for name in self.routers:
            for arch, protocol in self.protocols.items():
                if (arch, name) == ("rnn", "expert_choice"):
                    continue  # it selects among all tokens, and a recurrence has not seen later ones
                steps = {"steps": protocol.training.steps * 2 // 3} if name == "annealed" else {}
                cells.append(self.cell(arch, name, router=steps))
        doses = [{"matrix": "spread", "amount": a, "hard": hard} for a in AMOUNTS for hard in (False, True)]
        return cells + [self.cell("mlp", CURVE, router=dose) for dose in doses]


def _smallest(protocol: Protocol) -> Protocol:
    training = replace(protocol.training, steps=20, evaluations=2, tail=1)
    evaluation = replace(protocol.evaluation, batches=1, batch_size=64, activation_batch_size=64)
    return Protocol(training, replace(evaluation, tokens=2_560, draws=5, tokens_per_draw=2_560))


FULL = Frozen()
SMALLEST = {arch: _smallest(protocol) for arch, protocol in PROTOCOLS.items()}
SMOKE = Frozen("modtf-1-smoke", SMALLEST, ROUTERS[:4])


@register_study("scorecard")
def cells() -> list[Cell]:
    """Return the reference cells."""
    return FULL.reference()


@register_study("scorecard_smoke")
def smoke_cells() -> list[Cell]:
    """Return the reference cells of `--smoke`, whose numbers are meaningless."""
    return SMOKE.reference()
