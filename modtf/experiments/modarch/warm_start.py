"""Warm starts: fit the router to the rules before training, then release it. Does it stay, and does it help?

`--set trainer.start=oracle --set trainer.start_steps=1000` requests one. It fits all weights that routing
depends on. None of them is held fixed afterwards.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from modtf.datasets.streaming import stream
from modtf.tasks.population import Population
from modtf.tasks.task import Task
from modtf.training.plain import STARTS
from modtf.training.trainer import TrainerContext


@keras.saving.register_keras_serializable("modtf")
class ChoiceLoss(keras.losses.Loss):
    """Brier score of activation [..., M] against the module [...] that every token should use, 0 to 2.

    A cross-entropy would have no gradient if a sparse router gives that module 0.
    """

    def call(self, y_true, y_pred):
        wanted = ops.one_hot(y_true, y_pred.shape[-1], dtype=y_pred.dtype)
        return ops.mean(ops.sum(ops.square(y_pred - wanted), axis=-1))


@keras.saving.register_keras_serializable("modtf")
def nothing(y_true, y_pred):
    """Return a loss of 0, with a gradient of 0 for all weights, including those that routing does not use."""
    return 0.0 * ops.mean(y_pred)


def check_router(model: Any, task: Task, start: str) -> None:
    """Raise `ValueError` if the model's router has nothing to learn, or fewer modules than rules."""
    router: Any = getattr(model, "router", None)
    if router is None or not router.learns or router.num_modules < task.num_rules:
        raise ValueError(
            f"{model.name}: start={start!r} needs a learned router with at least as many modules as rules, "
            "in a single routed layer. Leave it out, or choose such routers by --variant."
        )


def checked(function: Any) -> Any:
    """Let the model of a start be checked before any variant trains (a decorator)."""
    function.check_model = check_router
    return function


@STARTS.register("oracle")
@checked
def from_oracle(context: TrainerContext, steps: int) -> None:
    """Fit the router to module c for rule c.

    Raises:
        ValueError: if the router has nothing to learn, or fewer modules than rules.
    """
    _fit_router(context, "oracle", steps)


@STARTS.register("random")
@checked
def from_random(context: TrainerContext, steps: int) -> None:
    """Fit the router for as long to a random module per token, from which it can learn nothing."""
    _fit_router(context, "random", steps)


def _fit_router(context: TrainerContext, start: str, steps: int) -> None:
    check_router(context.model, context.task, start)
    batches = partial(_choices, context.population, context.training.batch_size, start)
    losses = {"activation": ChoiceLoss(), "target": nothing}
    context.fit("start", context.model, batches, steps, loss=losses, measured=False)


def _choices(population: Population, batch_size: int, start: str, step: int) -> tf.data.Dataset:
    """Return batches with a module for every token; random modules are the rules of another seed's stream."""
    own = stream(population, batch_size, start_step=step)
    if start == "oracle":
        return own.map(lambda features, target: _chosen(features, target, features["rule"]))
    others = replace(population, seeds=tuple(seed + 1 for seed in population.seeds))
    pairs = tf.data.Dataset.zip(own, stream(others, batch_size, start_step=step))
    return pairs.map(lambda one, other: _chosen(one[0], one[1], other[0]["rule"]))


def _chosen(features: Any, target: Any, modules: Any) -> Any:
    return features, {"activation": modules, "target": target}
