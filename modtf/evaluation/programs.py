"""Everything that is compiled once and reused by evaluation and training: who keeps it, and when it is
released.

| what is kept | for | released |
|---|---|---|
| training functions of a model | the same settings | with the model, or when it is compiled otherwise |
| a trained model and its evaluator | the next cell of the same shape | if `KEPT` others were used since |
| pipelines of a population | its other variants and widths | when another population is evaluated |
| iterators of a pipeline | the next evaluation | with the pipeline, and before Python ends |

A model of more than `LARGEST` weights, and one whose training was interrupted, is not kept. The compiled
programs of an evaluation belong to its `Accumulator`, and live as long as the evaluator.
"""

import atexit
import contextlib
import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import keras

from modtf.models.kernels.by_device import on_cpu
from modtf.models.kernels.gradients import no_gradients_kept
from modtf.population import Population
from modtf.xla.switches import no_retracing_advice, xla_alone

KEPT = 8  # models: the variants of a comparison, and as many again
LARGEST = 1 << 22  # weights; tracing is nothing beside the training of a larger model

#: key of a shape -> a trained model, and what measures it
_models: OrderedDict[Hashable, tuple[keras.Model, Any]] = OrderedDict()
#: source of batches -> its iterators, see `modtf.evaluation.batches.Source`
_iterators: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
atexit.register(_iterators.clear)  # TensorFlow waits for their threads, in vain once Python ends


@dataclass(eq=False)
class Compiled:
    """The compilation settings of a model, and its training functions by their keys.

    It is an attribute of the model, since functions hold the model: so both are released together.
    """

    optimizer: keras.optimizers.Optimizer
    losses: Mapping[str, Any]
    settings: Hashable
    functions: dict[Hashable, Callable[[Any], Any]] = field(default_factory=dict)


def set_compiled(model: keras.Model, compiled: Compiled) -> None:
    """Record how a model was compiled."""
    model.compiled_for_training = compiled


def compiled_of(model: keras.Model) -> Compiled | None:
    """Return how a model was compiled; None if that is not recorded, or a user has compiled it since."""
    compiled = getattr(model, "compiled_for_training", None)
    if compiled is None or compiled.optimizer is not model.optimizer:
        return None
    there = model.loss if isinstance(model.loss, dict) else {}
    same = all(there.get(name) is loss for name, loss in compiled.losses.items())
    return compiled if same and len(there) == len(compiled.losses) else None


@contextlib.contextmanager
def lend(
    key: Hashable, model: keras.Model, population: Population, make: Callable[[], Any]
) -> Iterator[tuple[keras.Model, Any]]:
    """Give a model to train, and its evaluator: a kept one with the weights of `model`, or that one itself.

    Tracing costs most of a short training. Cells that differ in members, rate or steps share a model.

    Args:
        key: what models that can replace each other have in common; None for one that cannot be shared.
        model: a new model of the population.
        population: the members to be trained.
        make: makes the evaluator of `model`.
    """
    if key in _models:
        kept, evaluator = _models.pop(key)
        kept.become(model)
        lent = kept, evaluator.of(population)
    else:
        lent = model, make()
    yield lent
    if key is not None and sum(math.prod(variable.shape) for variable in model.variables) <= LARGEST:
        _models[key] = lent  # only now: one that was interrupted is in no known state
        while len(_models) > KEPT:
            _models.popitem(last=False)


@lru_cache(1)
def pipelines_of(population: Population) -> dict[Any, Any]:
    """Return the pipelines of a population by what they read; those of the population before are released.

    Their iterators hold threads and memory, 28 and 22 MB a cell.
    """
    return {}


def iterators_of(source: Any) -> dict[Any, Any]:
    """Return the iterators of a source that wait for its next evaluation."""
    return _iterators.setdefault(source, {})


@contextlib.contextmanager
def programs_of(model: keras.Model) -> Iterator[None]:
    """Compile and run what is called inside, `fit` or `evaluate`, with TensorFlow's settings for this model.

    No advice on retracing, no gradients kept, and, where XLA compiles it, optimised by XLA alone.
    """
    optimised = xla_alone() if model.jit_compile else contextlib.nullcontext()
    with no_retracing_advice(), no_gradients_kept(), optimised:
        yield


def with_xla(model: keras.Model, asked: bool | str) -> bool | str:
    """Return whether XLA compiles a model: as asked, but never on a CPU if its architecture says so."""
    return asked if getattr(model, "compiled_by_xla", None) is not False or not on_cpu() else False
