"""Do the rule tasks order routers as a language model does? languages_registered.md holds the design.

    modtf sweep --study=docs/studies/languages.py:search --out=studies/languages_search
    python docs/scripts/write_search.py studies/languages_search docs/study/languages_search.csv.gz
    modtf sweep --study=docs/studies/languages.py --out=studies/languages

Corpora of the law `rows` with eight languages, 4,000 steps, a learning rate that falls to 0 as a cosine: 25
cells, and 92 trials of 1,000 steps. Four more parts are trained in the same way, each after its search,
whose table is `docs/study/languages_PART_search.csv.gz`: 75 trials and 25 cells of the law `classes`, 12
and 4 of larger models, 6 and 2 of fixed routing that is wrong for some tokens (`cross`), 15 and 5 of networks
that are told the language, 3 and 1 of a network without experts that is as large as all experts together:

    modtf sweep --study=docs/studies/languages.py:classes_search --out=studies/classes_search
    modtf sweep --study=docs/studies/languages.py:classes --out=studies/classes
    modtf sweep --study=docs/studies/languages.py:larger_search --out=studies/larger_search
    modtf sweep --study=docs/studies/languages.py:larger --out=studies/larger
    modtf sweep --study=docs/studies/languages.py:cross_search --out=studies/cross_search
    modtf sweep --study=docs/studies/languages.py:cross --out=studies/cross
    modtf sweep --study=docs/studies/languages.py:told_search --out=studies/told_search
    modtf sweep --study=docs/studies/languages.py:told --out=studies/told
    modtf sweep --study=docs/studies/languages.py:total_search --out=studies/total_search
    modtf sweep --study=docs/studies/languages.py:total --out=studies/total

The rule tasks are those of the scorecard, with its protocol and its rates; it holds nine of the routers, and
these commands train the others, 22 cells with 55 trials:

    modtf sweep --study=docs/studies/languages.py:rules_search --out=studies/rules_search
    python docs/scripts/write_search.py studies/rules_search docs/study/languages_rules_search.csv.gz
    modtf sweep --study=docs/studies/languages.py:rules --out=studies/rules
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pandas as pd

import modtf
from modtf.experiments.languages.scorecard import (
    CORPORA,
    LEARNED,
    OTHERS,
    RATES,
    TRIAL_STEPS,
    TUNED_ON,
    Routers,
    options_of,
)
from modtf.experiments.modarch.studies.scorecard import FULL, ROUTERS
from modtf.studies.grid import Grid, grid

STEPS = 4_000
FARTHER = 8e-2  # is tried, too, where the largest rate was best under `rows`; it was best nowhere
#: of a trial, whose validation loss alone is read
FEW = {"training.evaluations": 1, "evaluation.batches": 20, "evaluation.conditions": ()}
#: trained with wrong experts for some tokens: a tenth of the tokens, or half of each token's weight
WRONG: Routers = {
    "a tenth sampled wrong": ("clamped", {"amount": 0.1, "hard": True}),
    "half of each weight wrong": ("clamped", {"amount": 0.5}),
}
RESULTS = Path(__file__).parents[1] / "study"
RULES_SEARCHED = RESULTS / "languages_rules_search.csv.gz"


@dataclass(frozen=True)
class Part:
    """Routers on corpora of one law, at one size."""

    searched: str
    routers: Routers
    law: str = "rows"
    width: int = 32
    corpora: tuple[int, ...] = CORPORA
    farther: bool = False
    told: bool = False

    def trials(self) -> Iterator[tuple[str, float, modtf.Cell]]:
        """Yield name, starting rate and cell of every trial; the farther ones once the others are done."""
        losses = self._losses()
        for name in self.routers:
            tried = {rate: self._trial(name, rate) for rate in RATES}
            yield from ((name, rate, cell) for rate, cell in tried.items())
            found = [losses.get(cell.folder, float("nan")) for cell in tried.values()]
            if self.farther and min(found) == found[-1]:
                yield name, FARTHER, self._trial(name, FARTHER)

    def reported(self) -> Iterator[tuple[str, modtf.Cell]]:
        """Yield name and cell of every router whose search is complete, on the reported corpora."""
        found: dict[str, dict[float, float]] = {}
        losses = self._losses()
        for name, rate, cell in self.trials():
            found.setdefault(name, {})[rate] = losses.get(cell.folder, float("nan"))
        for name, by_rate in found.items():
            if all(loss == loss for loss in by_rate.values()):
                yield name, self._cell(name, min(by_rate, key=by_rate.__getitem__), STEPS, self.corpora)

    def search(self) -> list[modtf.Cell]:
        """Return every router at every starting rate, on corpora that are not reported."""
        return [cell for *_, cell in self.trials()]

    def cells(self) -> list[modtf.Cell]:
        """Return every router at its rate, on the reported corpora."""
        return [cell for _, cell in self.reported()]

    def _losses(self) -> Mapping[str, float]:
        path = RESULTS / f"{self.searched}.csv.gz"
        return losses_of(path, max) if path.exists() else {}

    def _trial(self, name: str, rate: float) -> modtf.Cell:
        return self._cell(name, rate, TRIAL_STEPS, TUNED_ON, **FEW)

    def _cell(
        self, name: str, rate: float, steps: int, corpora: tuple[int, ...], **protocol: Any
    ) -> modtf.Cell:
        variant, options = self.routers[name]
        options = options_of(name, options, steps)
        point: Grid = grid(
            arch="languages",
            variant=variant,
            preset="paper",
            law=self.law,
            width=self.width,
            members=tuple((corpus, 0) for corpus in corpora),
            **{f"router.{option}": value for option, value in options.items()},
            **{"training.steps": steps, "training.learning_rate": rate},
            **({"model.told": True} if self.told else {}),
            **protocol,
        )
        [cell] = point.cells()
        return cell


LARGER = ("dense", "top-2, penalty", "top-1, penalty", "hash")
INFORMED = ("monolithic", "dense", "gt_modular", "top-1, penalty", "hash")
ROWS = Part("languages_search", {**LEARNED, **OTHERS}, farther=True)
CLASSES = Part("languages_classes_search", {**LEARNED, **OTHERS}, law="classes")
LARGE = Part(
    "languages_larger_search",
    {name: {**LEARNED, **OTHERS}[name] for name in LARGER},
    width=64,
    corpora=CORPORA[:3],
)
CROSS = Part("languages_cross_search", WRONG)
TOLD = Part("languages_told_search", {name: {**LEARNED, **OTHERS}[name] for name in INFORMED}, told=True)
TOTAL = Part("languages_total_search", {"monolithic, total size": ("monolithic_total", {})})


# what --study names: the trials of a part, and its routers at their rates
search, cells = ROWS.search, ROWS.cells
classes_search, classes = CLASSES.search, CLASSES.cells
larger_search, larger = LARGE.search, LARGE.cells  # twice the width, and twice the hidden units
cross_search, cross = CROSS.search, CROSS.cells
told_search, told = TOLD.search, TOLD.cells  # the language is a vector added to that of the word
total_search, total = TOTAL.search, TOTAL.cells


def rules_trials() -> Iterator[tuple[str, str, dict[float, modtf.Cell]]]:
    """Yield name, family, and the trials by rate, of the routers that the scorecard does not hold."""
    for arch, protocol in FULL.protocols.items():
        for name, (variant, options) in LEARNED.items():
            if options or variant not in ROUTERS:
                options = options_of(name, options, protocol.training.steps)
                yield name, arch, FULL.trials(arch, variant, router=options)


def rules_search() -> list[modtf.Cell]:
    """Return the trials of the routers that the scorecard does not hold."""
    return [cell for *_, trials in rules_trials() for cell in trials.values()]


def rules_reported() -> Iterator[tuple[str, modtf.Cell]]:
    """Yield the name and the cell of every router whose search is complete, on the tasks of the scorecard."""
    losses = losses_of(RULES_SEARCHED, geometric_mean)  # as in the scorecard
    for name, arch, by_rate in rules_trials():
        found = {str(rate): losses.get(cell.folder, float("nan")) for rate, cell in by_rate.items()}
        if all(loss == loss for loss in found.values()):
            yield name, FULL.final(by_rate, {"arch": arch, "variant": LEARNED[name][0], "losses": found})


def rules() -> list[modtf.Cell]:
    """Return the cells of the rule tasks that the scorecard does not hold, each at its rate."""
    return [cell for _, cell in rules_reported()]


def losses_of(path: Path, over: Callable[[list[float]], float]) -> Mapping[str, float]:
    """Return the validation loss after the last step by the cell's name, joined over corpora or tasks."""
    rows = pd.read_csv(path)
    rows = rows[
        (rows["measure"] == "loss") & (rows["step"] == rows.groupby("folder")["step"].transform("max"))
    ]
    values = rows["value"].fillna(float("inf")).groupby(rows["folder"])  # NaN: it diverged
    return {str(folder): float(over(list(losses))) for folder, losses in values}
