"""The language card: your router in a language model on frozen corpora, `modtf scorecard --tasks=languages`.

Its reference results are those of docs/studies/languages.py, whose rows are `LEARNED` and `OTHERS`. Nothing
here may change under the name of a version: every card contains the hash, and a test checks it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from modtf.experiments.languages.family import (
    LANGUAGE,
    LANGUAGE_CHANCE,
    LAYERS,
    ROOM,
    WORD,
    WORD_CHANCE,
    Languages,
)
from modtf.experiments.modarch.studies.scorecard import Frozen
from modtf.tasks.families import FAMILIES
from modtf.tasks.protocol import Preset, Protocol
from modtf.tasks.task import Task

if TYPE_CHECKING:
    from modtf.analysis.study import Study

CORPORA, TUNED_ON = tuple(range(10, 16)), (5, 6)
RATES, TRIAL_STEPS = (1e-2, 2e-2, 4e-2), 1_000
#: hash of the first test examples of the six corpora; other data need another version
DATA = {"languages": "827e300cc76386a4"}


PENALTY, BIAS = {"balance": "auxiliary"}, {"balance": "bias"}
ANNEALED = "annealed"  # reaches its last temperature after two thirds of the training
Routers = Mapping[str, tuple[str, Mapping[str, Any]]]  # name -> variant and its options
LEARNED: Routers = {
    "dense": ("modular", {}),
    "dense, penalty": ("balanced", PENALTY),
    "temperature 2": ("temperature", {"temperature": 2.0}),
    "temperature 0.5": ("temperature", {}),
    "temperature 0.1": ("temperature", {"temperature": 0.1}),
    ANNEALED: (ANNEALED, {}),
    "cosine": ("cosine", {}),
    "z-loss": ("z_loss", {}),
    "gumbel": ("gumbel", {}),
    "top-4": ("top_k", {"k": 4}),
    "top-4, penalty": ("balanced", {"k": 4, **PENALTY}),
    "top-2": ("top_k", {}),
    "top-2, all scores learn": ("balanced", {"k": 2}),
    "top-2, penalty": ("balanced", {"k": 2, **PENALTY}),
    "top-2, bias": ("bias_balanced", {}),
    "top-2 and a shared expert": ("balanced", {"k": 2, **PENALTY, "shared": True, "modules": 9}),
    "top-1": ("balanced", {"k": 1}),
    "top-1, penalty": ("switch", {}),
    "top-1, penalty 0.1": ("switch", {"strength": 0.1}),
    "top-1, bias": ("balanced", {"k": 1, **BIAS}),
}
#: rows for comparison, which do not enter the order
OTHERS: Routers = {name: (name, {}) for name in ("gt_modular", "modular_op", "uniform", "hash", "monolithic")}


def options_of(name: str, options: Mapping[str, Any], steps: int) -> dict[str, Any]:
    """Return the options of a router that trains for `steps`."""
    return {**options, "steps": steps * 2 // 3} if name == ANNEALED else {**options}


@dataclass(frozen=True)
class LanguageCard(Frozen):
    """A version: the models that are trained under its name."""

    setting: ClassVar[str] = Languages.settings[0]
    tasks: ClassVar[tuple[int, ...]] = CORPORA
    tuned_on: ClassVar[tuple[int, ...]] = TUNED_ON
    measures: ClassVar[tuple[str, ...]] = Languages.table
    data: ClassVar[Mapping[str, str]] = DATA
    names_options: ClassVar[bool] = True
    folder: ClassVar[str] = ROOM

    @staticmethod
    def shorten(protocol: Protocol) -> Protocol:
        """Return the protocol of a trial, which is shorter."""
        training = replace(protocol.training, steps=min(TRIAL_STEPS, protocol.training.steps), evaluations=1)
        batches = min(20, protocol.evaluation.batches)
        return Protocol(training, replace(protocol.evaluation, batches=batches, conditions=()))

    @staticmethod
    def join(losses: Sequence[float]) -> float:
        """Return the worse loss of the two corpora."""
        return float(max(losses))

    def rows(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield family, variant and options of every reference row."""
        steps = self.protocols["languages"].training.steps
        for name in self.routers:
            variant, options = {**LEARNED, **OTHERS}[name]
            yield "languages", variant, options_of(name, options, steps)


def describe(study: "Study", own: str) -> list[str]:
    """Return what the choice of a model's experts says about language and word, in a sentence."""
    rows = study.results[study.results["variant"] == own]
    means = rows.groupby("measure", observed=True)["value"].mean().dropna()
    if LANGUAGE not in means:
        return []
    bits = {name: f"{means[name]:.2f}" for name in (LANGUAGE, LANGUAGE_CHANCE, WORD, WORD_CHANCE)}
    return [
        f"The choice of its experts holds {bits[LANGUAGE]} bits about the language (chance "
        f"{bits[LANGUAGE_CHANCE]}) and {bits[WORD]} about the word (chance {bits[WORD_CHANCE]}), means "
        f"over {len(LAYERS)} layers."
    ]


def _card(version: str, routers: Sequence[str], preset: Preset, rates: tuple[float, ...]) -> LanguageCard:
    return LanguageCard(version, {"languages": preset.protocol}, tuple(routers), {"languages": rates})


_family, _task = FAMILIES["languages"], Task("languages")
FULL = _card("modtf-languages-2", [*LEARNED, *OTHERS], _family.published(_task), RATES)
SMOKE = _card(
    "modtf-languages-2-smoke", ["dense", "top-1, penalty", *OTHERS][:4], _family.smoke(_task), RATES[:2]
)
