"""Reference results of `modtf scorecard`: 35 cells, 92 trials of learning rates; --smoke: 16 and 32.

    modtf sweep --study=scorecard_tuning --out=studies/scorecard
    python docs/scripts/draw_scorecard.py studies/scorecard  # writes the rates that were found
    modtf sweep --study=scorecard --out=studies/scorecard
    python docs/scripts/draw_scorecard.py studies/scorecard

The smoke test's are --study=scorecard_smoke_tuning and --study=scorecard_smoke.

Version modtf-3: regression of the mlp and the rnn, R = 8 rules, width 32, one seed, tasks 100 to 104. The
learning rate falls to 0 as a cosine. Every row starts at its own rate: that with the lowest validation loss
on tasks 105 to 107. No other study uses these tasks. Nothing here may change under the name of a version:
every card contains the hash, and a test checks it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from statistics import geometric_mean
from typing import Any, ClassVar

from modtf.studies.load import register_study
from modtf.tasks.cell import Cell
from modtf.tasks.protocol import Evaluation, Protocol, Training
from modtf.tasks.task import Task, science_hash

NUM_RULES, WIDTH, TASKS = 8, 32, tuple(range(100, 105))
TUNED_ON = (105, 106, 107)  # tasks on which learning rates are chosen
#: in addition to performance in and out of distribution
MEASURES = ("collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation")
#: hashes of the first test examples of the five tasks; other data need another version
DATA = {"mlp": "6a6f78db56b22458", "rnn": "4d0ae48ce7103017"}
PROTOCOLS = {
    "mlp": Protocol(
        Training(steps=10_000, schedule="cosine", batch_size=256, evaluations=10, tail=10),
        Evaluation(
            batches=100, batch_size=1000, tokens=100_000, activation_batch_size=1000, draws=100,
            tokens_per_draw=2_560, conditions=("scale2",),
        ),
    ),
    "rnn": Protocol(
        Training(
            steps=3_000, schedule="cosine", batch_size=64, clipnorm=1.0, evaluations=10, tail=10
        ),
        Evaluation(
            batches=20, batch_size=256, tokens=51_200, activation_batch_size=256, draws=20,
            tokens_per_draw=2_560, conditions=("len30_scale2",),
        ),
    ),
}  # fmt: skip
#: the learning rates that every row tries, at the first step
RATES = {"mlp": (3e-3, 1e-2, 3e-2), "rnn": (2e-3, 6e-3)}
FEW: dict[str, Any] = {"tokens": 2_560, "draws": 2}  # of the test after a trial, whose results nobody reads
#: with default options, except the steps of `annealed`; `balanced` is `modular` then, so it is left out
ROUTERS = (
    "monolithic", "modular", "modular_op", "gt_modular", "uniform", "temperature", "top_k", "switch",
    "cosine", "z_loss", "bias_balanced", "annealed", "gumbel", "expert_choice",
)  # fmt: skip
ORACLE, CURVE = "gt_modular", "clamped"
AMOUNTS = (0.25, 0.5, 0.75, 0.875)  # of the curve, in the mlp only; the oracle is the point at 0
#: a line for every row: arch, variant, model_options, and losses by learning rate
Search = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Frozen:
    """A version: the cells that are trained under its name."""

    version: str = "modtf-3"
    protocols: Mapping[str, Protocol] = field(default_factory=lambda: PROTOCOLS)
    routers: tuple[str, ...] = ROUTERS  # of its reference results
    rates: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: RATES)

    setting: ClassVar[str] = "regression"
    tasks: ClassVar[tuple[int, ...]] = TASKS
    tuned_on: ClassVar[tuple[int, ...]] = TUNED_ON
    measures: ClassVar[tuple[str, ...]] = MEASURES
    data: ClassVar[Mapping[str, str]] = DATA
    names_options: ClassVar[bool] = False  # whether reference rows are named with their options
    folder: ClassVar[str] = "modtf.experiments.modarch.scorecard"  # of the reference results

    @staticmethod
    def shorten(protocol: Protocol) -> Protocol:
        """Return the protocol of a trial, whose validation loss alone is read."""
        training = replace(protocol.training, evaluations=1, tail=1)
        return Protocol(training, replace(protocol.evaluation, **FEW))

    @staticmethod
    def join(losses: Sequence[float]) -> float:
        """Return the loss by which a learning rate is chosen, given that of each task."""
        return geometric_mean(losses)

    def cell(self, arch: str, variant: str, rate: float, tasks: Sequence[int] = (), **options: Any) -> Cell:
        """Return the cell of a variant on a family's tasks; `options` are `router`, `model`, `trainer`."""
        members, protocol = tuple((task, 0) for task in tasks or self.tasks), self.protocols[arch]
        protocol = replace(protocol, training=replace(protocol.training, learning_rate=rate))
        return Cell(Task(arch, self.setting, NUM_RULES), WIDTH, variant, members, protocol, **options)

    def trials(self, arch: str, variant: str, **options: Any) -> dict[float, Cell]:
        """Return the cells among which validation chooses, by learning rate."""
        cells = {rate: self.cell(arch, variant, rate, self.tuned_on, **options) for rate in self.rates[arch]}
        return {rate: replace(cell, protocol=self.shorten(cell.protocol)) for rate, cell in cells.items()}

    def final(self, trials: Mapping[float, Cell], line: Mapping[str, Any]) -> Cell:
        """Return the cell of the reported tasks, at the best rate of a line of the search."""
        rate = best_rate(line)
        options = {name: getattr(trials[rate], name) for name in ("router", "model", "trainer")}
        return self.cell(line["arch"], line["variant"], rate, **options)

    @property
    def hash(self) -> str:
        """Return the hash of the tasks, data, protocols and trials."""
        trials = [self.trials(arch, ORACLE) for arch in self.protocols]
        cells = [self.cell(arch, ORACLE, self.rates[arch][0]) for arch in self.protocols]
        cells += [cell for of_arch in trials for cell in of_arch.values()]
        return science_hash([self.version, self.measures, self.data, [cell.to_dict() for cell in cells]])

    def rows(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield family, variant and options of every reference row; most comparisons need the first ones."""
        for name in self.routers:
            for arch, protocol in self.protocols.items():
                if (arch, name) == ("rnn", "expert_choice"):
                    continue  # it selects among all tokens, and a recurrence has not seen later ones
                steps = {"steps": protocol.training.steps * 2 // 3} if name == "annealed" else {}
                yield arch, name, steps
        for amount in AMOUNTS:
            for hard in (False, True):
                yield "mlp", CURVE, {"matrix": "spread", "amount": amount, "hard": hard}

    def tuning(self) -> list[Cell]:
        """Return the trials of all reference rows."""
        rows = self.rows()
        return [cell for *who, given in rows for cell in self.trials(*who, router=given).values()]

    def reference(self, search: Search) -> list[Cell]:
        """Return the reference cells, each at the rate that its `search` found."""
        lines, cells = {key_of(line): line for line in search}, []
        for arch, variant, given in self.rows():
            trials = self.trials(arch, variant, router=given)
            cells.append(self.final(trials, lines[key_of(next(iter(trials.values())).columns)]))
        return cells

    def shipped(self) -> Any:
        """Return the path of the reference results."""
        return files(self.folder) / f"{self.version}.json"


def key_of(line: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what identifies a row: family, variant and options."""
    return line["arch"], line["variant"], line["model_options"]


def best_rate(line: Mapping[str, Any]) -> float:
    """Return the learning rate with the lowest validation loss; `ValueError` if all trials diverged."""
    losses = {float(rate): loss for rate, loss in line["losses"].items() if loss is not None}
    if not losses:
        raise ValueError(
            f"{line['variant']} diverged in the {line['arch']} at every learning rate: "
            f"{', '.join(line['losses'])}. Make its training stable, for example by smaller initial weights."
        )
    return min(losses, key=losses.__getitem__)


def _smallest(protocol: Protocol) -> Protocol:
    training = replace(protocol.training, steps=20, evaluations=2, tail=1)
    evaluation = replace(protocol.evaluation, batches=1, batch_size=64, activation_batch_size=64)
    return Protocol(training, replace(evaluation, tokens=2_560, draws=5, tokens_per_draw=2_560))


FULL = Frozen()
SMALLEST = {arch: _smallest(protocol) for arch, protocol in PROTOCOLS.items()}
SMOKE = Frozen("modtf-3-smoke", SMALLEST, ROUTERS[:4], {arch: rates[:2] for arch, rates in RATES.items()})


def _cells(frozen: Frozen) -> list[Cell]:
    return frozen.reference(json.loads(frozen.shipped().read_text(encoding="utf-8"))["search"])


@register_study("scorecard_tuning")
def tuning() -> list[Cell]:
    """Return the trials that choose the rates of the reference cells."""
    return FULL.tuning()


@register_study("scorecard")
def cells() -> list[Cell]:
    """Return the reference cells."""
    return _cells(FULL)


@register_study("scorecard_smoke_tuning")
def smoke_tuning() -> list[Cell]:
    """Return the trials of the reference cells of `--smoke`."""
    return SMOKE.tuning()


@register_study("scorecard_smoke")
def smoke_cells() -> list[Cell]:
    """Return the reference cells of `--smoke`, whose numbers are meaningless."""
    return _cells(SMOKE)
