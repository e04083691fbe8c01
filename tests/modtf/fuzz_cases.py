"""The public functions, with valid arguments and what must hold of their results, for `test_fuzz.py`."""

import contextlib
import inspect
import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from fuzzing import survives

import modtf
from modtf import (
    Cell,
    Condition,
    Evaluation,
    Family,
    Option,
    Population,
    Protocol,
    Study,
    Task,
    Training,
    metrics,
)
from modtf.analysis.claims.registry import CLAIMS
from modtf.analysis.figures import FIGURES, NothingToDraw
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.results import find_cells, load_activations, load_history, load_results
from modtf.routing import Experts, Names, Routing, measuring
from modtf.routing.analyses.registry import ANALYSES
from modtf.studies import Grid
from modtf.tasks.families import FAMILIES
from modtf.tasks.family import Variant

TASK = Task(num_rules=3)
FEW = Evaluation(batches=2, batch_size=8, tokens=24, activation_batch_size=8, draws=1, conditions=("iid",))
CELL: dict[str, Any] = {"task": TASK, "width": 8, "variant": "modular", "members": ((0, 0), (1, 2))}
GATES, LABELS = np.eye(3)[np.arange(12) % 3], np.arange(12) % 3
KINDS = {"family": FAMILIES, "architecture": ARCHITECTURES, "router": ROUTERS, "model": MODELS}
KINDS |= {"figure": FIGURES, "analysis": ANALYSES}
REGISTRIES = [*KINDS.values(), CLAIMS, metrics.MEASURES]
OPTION = Option("metal", 1.0, "what they are made of")
FAMILY: dict[str, Any] = {
    "title": "Coins", "data": "coins:Data", "architecture": "mlp", "headline": "heavy",
    "settings": ("regression",), "options": (OPTION,), "is_sequence": False,
    "training_length": 10, "min_tokens": 1, "performance": {"regression": "loss"},
    "conditions": (Condition("iid", "as in training", True), Condition("heavy", "x 3")),
    "variants": (Variant("modular"),), "reference": "modular", "oracle": None,
}  # fmt: skip
MEASURE: dict[str, Any] = {
    "name": "coins", "group": "specialisation", "range": (0.0, 1.0), "perfect": 0.0,
    "description": "It falls.", "axis_label": "Falls", "smaller_is_better": True, "needs_labels": True,
}  # fmt: skip
#: valid arguments of measures, by name
MATRICES: dict[str, Any] = {
    "A": np.eye(3), "matrix": np.eye(3), "num_rules": 3, "num_modules": 3, "num_draws": 2,
    "name": "alignment", "sums": np.eye(3), "counts": np.ones(3), "usage": np.eye(3),
    "rule_distributions": np.eye(3), "runs": {"a": GATES, "b": GATES},
    "factors": {"token": np.arange(12) % 2, "position": np.arange(12)},
    "routing": {"experts": [[0], [1]], "num_experts": 2},
    "labels": LABELS, "activations": GATES, "permutations": 2, "progress": iter,
}  # fmt: skip
ONE_BY_ONE = ("register_measure", "measure_activations", "measure_population")
MEASURING = {name: one for name, one in {**vars(metrics), **vars(measuring)}.items()
             if inspect.isfunction(one) and name not in ONE_BY_ONE}  # fmt: skip


@cache
def study() -> Study:
    return Study.read("study")


@cache
def model() -> Any:
    return modtf.build(TASK, "modular", 3)


def accumulated() -> measuring.ActivationAccumulator:
    sums = measuring.ActivationAccumulator()
    sums.update(GATES, LABELS)
    return sums


def register_family(**attributes: Any) -> None:
    methods = {name: lambda self, task: 3 for name in ("token_width", "published", "quick")}
    modtf.register_family("coins")(type("Coins", (Family,), {**FAMILY, **methods, **attributes}))


def figure(**chosen: Any) -> None:
    with contextlib.suppress(NothingToDraw):
        study().figure("activation", **chosen)


class Case(NamedTuple):
    """A function, arguments that it accepts, and what must hold of its result.

    An error may say one of `words`, or the value if `words` holds "{}", in place of the argument's name.
    """

    call: Callable[..., Any]
    valid: Callable[[], dict[str, Any]] = dict
    words: Sequence[str] = ()
    names: Sequence[str] = ()  # of the arguments to try; those of the signature if empty
    holds: Callable[[Any], Any] = lambda result: True

    @property
    def arguments(self) -> list[str]:
        return list(self.names or inspect.signature(self.call).parameters)


def task_holds(task):
    return Task(**json.loads(json.dumps(task.to_dict()))) == task and hash(task) == hash(task.replace())


def cell_holds(cell):
    same = Cell.from_dict(json.loads(json.dumps(cell.to_dict()))).hash == cell.hash
    return same and cell.population.task == cell.task and not {"/", "\x00"} & set(cell.folder)


def option_holds(option):
    allowed = survives(lambda: option.check(0.5), option.name)
    return allowed is None or isinstance(option.show(allowed), str)


def of_signature(function, valid):
    names = inspect.signature(function).parameters
    return {name: value for name, value in valid.items() if name in names}


CASES: dict[str, Case] = {
    "Task": Case(Task, names=["arch", "setting", "num_rules", "data_seed", "nonsense"], holds=task_holds),
    **{f"Task {arch}": Case(lambda arch=arch, **options: Task(arch, **options), holds=task_holds,
                            names=[option.name for option in family.options] or ["search"])
       for arch, family in FAMILIES.items()},
    "Training": Case(Training, lambda: {"steps": 10}),
    "Evaluation": Case(Evaluation, holds=lambda sizes: sizes.smaller(10)),
    "Protocol": Case(Protocol, lambda: {"training": Training(steps=1), "evaluation": FEW}),
    "Protocol.replace": Case(Protocol.published(TASK).replace,
                             names=[*Training.__dataclass_fields__, "nonsense"]),
    "Cell": Case(Cell, lambda: CELL, holds=cell_holds),
    "Population": Case(Population.of, lambda: {"task": TASK}, ["modtf.Task", "seed", "one task"],
                       holds=lambda result: len(result.seeds) == len(result.tasks) >= 1),
    "Grid": Case(lambda **point: Grid([point]).cells(), dict, ["{}"], [*CELL, "arch", "preset", "tasks",
                 "seeds", "protocol", "training.steps", "evaluation.batches", "router.modules",
                 "model.cell"]),
    "Option": Case(Option, lambda: {"name": "metal", "default": 1.0, "description": ""}, ["default"],
                   holds=option_holds),
    "Condition": Case(Condition, lambda: {"name": "heavy", "label": "x 3"}, ["an option"],
                      holds=lambda one: one.of("loss") in ("loss", f"loss_{one.name}")),
    "Family": Case(register_family, words=["'coins'"], names=list(FAMILY)),
    **{f"register_{kind}": Case(lambda name, thing, add=f"register_{kind}": getattr(modtf, add)(name)(thing),
                                lambda: {"name": "coins", "thing": dict}, ["'coins'", "{}"],
                                ["name", "thing"])
       for kind in KINDS},
    "register_claim": Case(lambda **how: modtf.register_claim(**how)(lambda study: ()),
                           lambda: dict.fromkeys(["name", "text", "figure", "statistic"], "coins"),
                           ["{}"], ["name", "text", "figure", "statistic", "variants", "families", "router"]),
    "register_measure": Case(lambda **how: modtf.register_measure(**how)(lambda A: 0.5), lambda: MEASURE,
                             ["{}"], list(MEASURE)),
    "load_plugin": Case(modtf.load_plugin, words=["lug-in"]),
    **{name: Case(function, partial(of_signature, function, MATRICES), ["activation matri", "measure"])
       for name, function in MEASURING.items()},
    "measure_activations": Case(modtf.measure_activations,
                                lambda: {"activations": GATES, "labels": LABELS, "permutations": 2}),
    "analyse_routing": Case(modtf.analyse_routing,
                            lambda: {"routing": MATRICES["routing"], "analyses": "load", "permutations": 0},
                            ["analysis", "format", "exist", "{}"]),
    "measure_population": Case(metrics.measure_population, lambda: {"A": np.eye(3)[None]},
                               ["activation matri"]),
    "ActivationAccumulator": Case(measuring.ActivationAccumulator),
    "update": Case(lambda **how: measuring.ActivationAccumulator().update(**how),
                   lambda: {"activations": GATES, "labels": LABELS},
                   names=["activations", "labels", "documents", "spans"]),
    "result": Case(lambda **how: accumulated().result(**how), lambda: {"permutations": 2},
                   names=["label_probs", "groups", "permutations", "confidence", "seed", "progress"]),
    "Experts": Case(Experts, lambda: {"experts": np.arange(24).reshape(12, 2) % 4, "num_experts": 4}),
    "Names": Case(Names),
    "read_routing": Case(modtf.read_routing,
                         lambda: {"path_or_object": MATRICES["routing"]}, ["{}"],
                         [*inspect.signature(Routing.read).parameters][1:]),
    "write_routing_report": Case(modtf.write_routing_report,
                                 lambda: {"layers": modtf.measure_activations(GATES, permutations=0),
                                          "out": "report"}),
    "load_results": Case(load_results, lambda: {"directory": "study"}, ["folder"]),
    "load_history": Case(load_history, lambda: {"directory": "study"}, ["folder"]),
    "load_activations": Case(load_activations, lambda: {"directory": "study"}, ["folder"],
                             ["directory", "place"]),
    "find_cells": Case(find_cells, words=["folder"]),
    "Study.read": Case(Study.read, lambda: {"folders": "study"}, ["folder", "cells in", "protocol"]),
    "Study": Case(Study, lambda: {"results": study().results}, ["protocol"],
                  ["results", "checkpoint", "protocols", "level"]),
    "Study.figure": Case(figure, words=["column"], names=["data_seed", "num_rules", "nonsense"]),
    "Study.summary": Case(lambda **how: study().summary(**how), words=["column"],
                          names=["measure", "width", "nonsense"]),
    "Study.activations": Case(lambda **how: next(study().activations(**how), None), words=["cell"],
                              names=["width", "nonsense"]),
    "Study.claims": Case(lambda names: study().claims(names), words=["claim"]),
    "summarise": Case(modtf.summarise, lambda: {"frame": study().results.query("measure == 'alignment'")},
                      ["olumn", "table", "value"], holds=lambda frame: {"mean", "low", "high"} <= set(frame)),
    "stream": Case(modtf.stream, lambda: {"task": TASK, "batch_size": 2}, ["modtf.Task"]),
    "build": Case(modtf.build, lambda: {"task": TASK, "variant": "modular", "width": 3}, ["modtf.Task"]),
    "train": Case(modtf.train, lambda: {"model": model(), "task": TASK, "steps": 1, "verbose": False},
                  ["modtf.Task"]),
    "evaluate": Case(modtf.evaluate, lambda: {"model": model(), "task": TASK, "evaluation": FEW},
                     ["modtf.Task"]),
    "run_cell": Case(modtf.run_cell, lambda: {"cell": Cell(**CELL), "out": "cells"}),
    "load_model": Case(modtf.load_model, words=["does not exist", "cannot be read as a model"]),
}  # fmt: skip
