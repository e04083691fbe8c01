"""The outputs that a model must return: `{"target": [B, ...], "activation": [B, ..., M]}`.

Activation is optional.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np

from modtf.base.cache import Cache
from modtf.base.words import one_line
from modtf.evaluation.batches import alike, first_batches
from modtf.models.base import ModularModel
from modtf.models.routers.base import Router
from modtf.tasks.observed import Place
from modtf.tasks.population import Population
from modtf.tasks.protocol import Evaluation
from modtf.tasks.task import Task

EXAMPLES = 2
_kept_examples = Cache(8)  # several models share them, since TensorFlow prepares each pipeline anew
TOLERANCE = 1e-3  # of the sum of an activation, for models in half precision


def find_outputs(model: keras.Model, population: Population) -> dict[str, int]:
    """Return outputs of a model -> last axes; a user's model is built and run on two examples.

    A model without activation, or without some place, lacks that output. Raises `ValueError` if `model` is
    not a Keras model, belongs to another task, or lacks a required output.
    """
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"model={model!r} is not valid; expected a keras.Model that maps a dict with 'inputs' and "
            "'rule' to a dict with 'target' and 'activation'. Call a function of yours in the `call` of a "
            "subclass."
        )
    task = population.task
    if isinstance(model, ModularModel):
        if model.population.shape != population.shape:
            raise ValueError(
                f"The model was built for {model.population.describe()}, but received "
                f"{population.describe()}. Give the task, or the list of tasks, that it was built for."
            )
        model.check_routers()
        if "" in model.routers and not task.family.probes(task):
            return {"activation": model.num_modules}  # no other output is needed
    return _check_outputs(model, population)


def measured_population(model: keras.Model, task: Task | Sequence[Task] | Population) -> Population:
    """Return the tasks to measure a model on, with the seeds of its training data unless `task` has seeds.

    Raises `ValueError` if a model of `modtf.build` was neither built for these tasks nor trained on them.
    """
    population = Population.of(task)
    built = model.population if isinstance(model, ModularModel) else None
    known = [one for one in (getattr(model, "trained_on", None), built) if isinstance(one, Population)]
    for one in known:
        if one.tasks == population.tasks:
            return population if task is population else replace(population, seeds=one.seeds)
    if built is not None and built.shape == population.shape:
        pairs = zip(built.tasks, population.tasks, strict=True)
        own, received = next(pair for pair in pairs if pair[0] != pair[1])
        raise ValueError(
            f"The model was built for {own.name}, but received {received.name}. Give the task that it was "
            "built for or trained on. To measure it on another task, first set "
            "model.trained_on = modtf.Population.of(task)."
        )
    return population


def find_routers(model: keras.Model) -> dict[str, Router]:
    """Return the routers of a model by place; a user's model may have one as its attribute `router`."""
    routers = model.routers if isinstance(model, ModularModel) else {"": getattr(model, "router", None)}
    return {place: router for place, router in routers.items() if isinstance(router, Router)}


def check_conditions(model: keras.Model, population: Population, evaluation: Evaluation) -> None:
    """Raise `ValueError` if a user's model lacks a required output under a condition of evaluation, such as
    sequences of another length."""
    task = population.task
    for condition, *_ in alike([task.condition(name) for name in evaluation.names(task)]):
        try:
            _check_outputs(model, population, **condition.stream_options())
        except Exception as error:
            message = f"The model fails under the condition {condition.name!r}: {one_line(error)}"
            raise ValueError(message) from error


@contextlib.contextmanager
def failures_explained(model: keras.Model, population: Population, evaluation: Evaluation) -> Iterator[None]:
    """Explain in one line why a user's model fails in an evaluation, although it passed on two examples."""
    try:
        yield
    except Exception as error:
        if isinstance(model, ModularModel) or isinstance(error, OSError):  # not the model's errors
            raise
        check_conditions(model, population, evaluation)
        raise ValueError(
            "The model works on two examples, but fails on the batches of an evaluation as a compiled "
            f"program. {type(error).__name__}: {one_line(error)}. Write it with keras.ops only, for any "
            "number of examples."
        ) from error


def _check_outputs(model: keras.Model, population: Population, **condition: Any) -> dict[str, int]:
    """Return output -> its last axis, under a condition; raise `ValueError` on invalid outputs."""
    features, target = _examples(population, condition)
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in features.items())
    try:
        outputs = model(features)
    except Exception as error:
        raise ValueError(
            f"The model fails on {EXAMPLES} examples of {population.describe()} ({shapes}): "
            f"{type(error).__name__}: {one_line(error)}"
        ) from error
    if not isinstance(outputs, dict) or "target" not in outputs:
        received = sorted(map(str, outputs)) if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(
            "A model must return a dict with the keys 'target' [B, ...] and, if it has modules, "
            f"'activation' [B, ..., M]; received {received}. Wrap it in a model whose call returns both."
        )
    _check_target(outputs["target"], tuple(features["inputs"].shape), tuple(target.shape), population.task)
    for place in population.task.places.values():
        if place.output in outputs:
            _check_activation(outputs[place.output], tuple(features["rule"].shape), place, population.task)
    return {name: int(value.shape[-1]) for name, value in outputs.items() if len(getattr(value, "shape", ()))}


def _examples(population: Population, condition: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return a few examples under a condition: those of the first population of that shape and condition."""
    key = population.family, population.shape, repr(sorted(condition.items()))
    return _kept_examples.get_or_make(
        key, lambda: first_batches(population, EXAMPLES, "validation", **condition)[0]
    )


def _check_target(output: Any, inputs: tuple[int, ...], target: tuple[int, ...], task: Task) -> None:
    values, classes = _numbers("target", output), task.target_dtype == "int32"
    expected = (*target, task.output_width) if classes else target
    if values.shape != expected:
        words = "one number per token, without an extra axis"
        words = "one logit per class on the last axis" if classes else words
        raise ValueError(
            f"The model's 'target' has the shape {values.shape} for inputs of shape "
            f"{inputs}; expected {expected}: {words}."
        )
    if not keras.backend.is_float_dtype(output.dtype):
        raise ValueError(
            f"The model's 'target' is of type {keras.backend.standardize_dtype(output.dtype)}; expected "
            "floating-point numbers, which have gradients. Cast them to 'float32'."
        )


def _check_activation(output: Any, rule: tuple[int, ...], place: Place, task: Task) -> None:
    values, tokens = _numbers(place.output, output), rule
    if place.name:  # a named place always has an axis of tokens
        numbers = range(rule[-1]) if task.is_sequence else range(1)
        chosen = place.tokens if isinstance(place.tokens, tuple) else numbers[place.tokens or slice(None)]
        tokens = (*(rule[:-1] if task.is_sequence else rule), len(chosen))
    if values.ndim != len(tokens) + 1 or values.shape[:-1] != tokens or not values.shape[-1]:
        raise ValueError(
            f"The model's {place.output!r} has the shape {values.shape}; expected {(*tokens, 'M')}: the "
            "weight of each of M modules for every token."
        )
    if values.min() < -TOLERANCE or np.abs(values.sum(axis=-1) - 1).max() > TOLERANCE:
        raise ValueError(
            f"The model's {place.output!r} lies between {values.min():.4g} and {values.max():.4g}, its sums "
            f"over modules between {values.sum(axis=-1).min():.4g} and {values.sum(axis=-1).max():.4g}; "
            "expected values of at least 0 that sum to 1. Apply a softmax, or divide by the sum."
        )


def _numbers(name: str, output: Any) -> np.ndarray:
    """Return an output as float64; raise `ValueError` unless it is a tensor of finite real numbers."""
    try:
        if not hasattr(output, "dtype"):
            raise TypeError("it is not a tensor")
        values = np.asarray(keras.ops.convert_to_numpy(output))
        if np.iscomplexobj(values):
            raise TypeError("its numbers are complex")
        values = values.astype(np.float64)
    except Exception as error:  # backends raise many errors on values they cannot read
        raise ValueError(
            f"The model's {name!r} is of type {type(output).__name__}; expected a tensor of real numbers "
            f"({one_line(error)}). Leave out outputs that the model does not have."
        ) from error
    if not np.isfinite(values).all():
        raise ValueError(
            f"The model's {name!r} holds NaN or infinity: it is invalid before training, or training "
            "diverged. Check the initial weights, and look for a logarithm of 0 or a division by 0."
        )
    return values
