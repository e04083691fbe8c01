"""Compiled objects that evaluation and training reuse: what is kept, and when it is released.

| what is kept | for | released |
|---|---|---|
| training functions of a model | the same settings | with the model, or when it is compiled otherwise |
| programs of an evaluation | the next evaluation | with the evaluator, whose `Accumulator` has them |
| iterators of a pipeline | the next evaluation | with the pipeline, and before Python ends |
| a trained model and its evaluator | the next cell of the same shape | with its `Cache` |
| pipelines of a population | its other variants, widths | with their `Cache` |
| the program of a lone member's stream | other members | with its `Cache` in `modtf.datasets.streaming` |
| examples on which models are tried | other models | with their `Cache` in `modtf.evaluation.outputs` |
| a frozen network and its stages | other members | with its `Cache` in the corruptions' `modules` |

A model with more than `LARGEST` weights, or whose training was interrupted, is not kept.
TensorFlow itself never releases a program that XLA compiled: see `growth` in `modtf.engines.local`.
"""

import atexit
import contextlib
import math
import os
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

from modtf.base.cache import Cache
from modtf.models.kernels.by_device import on_cpu
from modtf.models.kernels.gradients import no_gradients_kept
from modtf.tasks.population import Population
from modtf.xla.switches import no_retracing_advice, xla_alone

LARGEST = 1 << 22  # weights; tracing costs little compared with the training of a larger model

#: key of a shape -> a trained model, and what measures it
_models = Cache(4)  # the variants of a comparison; 100 MB each for the smallest
#: population -> its pipelines, whose iterators hold 28 threads and 22 MB of memory per cell
_of_many = Cache(1)
_of_one = Cache(5)  # members that train alone take turns in every variant; most studies have five
#: source of batches -> its waiting iterators, see `modtf.evaluation.batches.Source`
waiting_iterators: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
atexit.register(waiting_iterators.clear)  # TensorFlow would wait for their threads for ever after Python ends


@dataclass(eq=False)
class Compiled:
    """The compilation settings of a model, and its training functions by their keys.

    It is an attribute of the model, `compiled_for_training`, because the functions hold the model: both are
    released together.
    """

    optimizer: keras.optimizers.Optimizer
    losses: Mapping[str, Any]
    settings: Hashable
    precision: str = "float32"
    functions: Cache = field(default_factory=Cache)


def compiled_of(model: keras.Model) -> Compiled | None:
    """Return how a model was compiled; None if that is not recorded, or a user has compiled it since."""
    compiled = getattr(model, "compiled_for_training", None)
    if compiled is None or compiled.optimizer is not model.optimizer:
        return None
    losses = model.loss if isinstance(model.loss, dict) else {}
    same = all(losses.get(name) is loss for name, loss in compiled.losses.items())
    return compiled if same and len(losses) == len(compiled.losses) else None


@contextlib.contextmanager
def reuse(
    key: Hashable, model: keras.Model, population: Population, make: Callable[[], Any]
) -> Iterator[tuple[keras.Model, Any]]:
    """Yield a model to train, and its evaluator: a kept model with the weights of `model`, or `model` itself.

    Tracing costs most of a short training. Cells that differ in members, rate or steps share a model.

    Args:
        key: equal for models that can replace each other; None for a model that cannot be shared.
        model: a new model of the population.
        population: the members to be trained.
        make: makes the evaluator of `model`.
    """
    if key in _models:
        kept, evaluator = _models.pop(key)
        kept.become(model)
        reused = kept, evaluator.of(population)
    else:
        reused = model, make()
    yield reused
    if key is not None and sum(math.prod(variable.shape) for variable in model.variables) <= LARGEST:
        _models.get_or_make(
            key, lambda: reused
        )  # only at the end: an interrupted model is in an unknown state


def pipelines_of(population: Population) -> Cache:
    """Return the pipelines of a population by what they read, for training and evaluation."""
    key = population, population.family  # a notebook may register a family anew, with other data
    return (_of_many if population.has_axis else _of_one).get_or_make(key, Cache)


@contextlib.contextmanager
def programs_of(model: keras.Model) -> Iterator[None]:
    """Compile and run `fit` or `evaluate`, called inside, with TensorFlow's settings for this model.

    No advice on retracing, no kept gradients, and optimisation by XLA alone if XLA compiles the model.
    """
    if keras.backend.backend() != "tensorflow":
        yield
        return
    optimised = xla_alone() if model.jit_compile else contextlib.nullcontext()
    with no_retracing_advice(), no_gradients_kept(), optimised:
        yield


def with_xla(model: keras.Model, asked: bool | str) -> bool | str:
    """Return whether XLA compiles a model: as requested, but never on a CPU if its architecture forbids it.

    The environment variable `MODTF_XLA=0`, for debugging and tests, turns XLA off for every model. Cells that
    are too short for XLA (`modtf.training.xla`) have `compiled_by_xla = False`; `MODTF_XLA=1` compiles
    them.
    """
    forbidden = on_cpu() and getattr(model, "compiled_by_xla", None) is False
    return False if forbidden or os.environ.get("MODTF_XLA") == "0" else asked
