"""How a model is trained where its variant does not say: in one go, or after its router was given a start."""

from dataclasses import replace
from functools import partial
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from modtf.checks import check_choice, check_integer
from modtf.datasets.streaming import stream
from modtf.population import Population
from modtf.training.trainer import TrainerContext, checked_by

STARTS = ("none", "oracle", "random")


@keras.saving.register_keras_serializable("modtf")
class ChoiceLoss(keras.losses.Loss):
    """Brier score of activation [..., M] against the module [...] that every token is to have, 0 to 2.

    A cross-entropy would have no gradient where a sparse router gives that module 0.
    """

    def call(self, y_true, y_pred):
        wanted = ops.one_hot(y_true, y_pred.shape[-1], dtype=y_pred.dtype)
        return ops.mean(ops.sum(ops.square(y_pred - wanted), axis=-1))


@keras.saving.register_keras_serializable("modtf")
def nothing(y_true, y_pred):
    """A loss of 0, whose gradient is 0 for all weights, those that routing does not depend on too."""
    return 0.0 * ops.mean(y_pred)


def check_start(start: str = "none", start_steps: int = 0) -> None:
    """Raises `ValueError` on another start, or no number of steps."""
    check_choice("start", start, STARTS)
    check_integer("start_steps", start_steps, 0)


@checked_by(check_start)
def from_start(context: TrainerContext, start: str = "none", start_steps: int = 1000) -> None:
    """Trains on the "train" stream; does a specialised start stay, and help?

    Args:
        context: what is trained.
        start: "none"; "oracle": first the router alone is judged, by whether it chooses module c for rule c;
            "random": the same against a module drawn for every token, as long, from which it can learn
            nothing. Either way all weights that routing depends on are fitted, then let go.
        start_steps: of it, beside those of the protocol.

    Raises:
        ValueError: where the router has nothing to learn, or fewer modules than rules.
    """
    if start != "none" and start_steps:
        _check_router(context, start)
        chosen = partial(_choices, context.population, context.training.batch_size, start)
        losses = {"activation": ChoiceLoss(), "target": nothing}
        context.fit("start", context.model, chosen, start_steps, loss=losses, measured=False)
    context.fit("", context.model, None, context.training.steps)


def _check_router(context: TrainerContext, start: str) -> None:
    router: Any = getattr(context.model, "router", None)
    learns = router is not None and (router.needs_scores or router.trainable_variables)
    if not learns or router.num_modules < context.task.num_rules:
        raise ValueError(
            f"{context.model.name}: start={start!r} is for routers that learn, of at least as many modules "
            "as rules, at a single place; leave it out, or name such routers by --variant."
        )


def _choices(population: Population, batch_size: int, start: str, step: int) -> tf.data.Dataset:
    """Batches with a module for every token; the random ones are rules of another seed's stream."""
    own = stream(population, batch_size, start_step=step)
    if start == "oracle":
        return own.map(lambda features, target: _chosen(features, target, features["rule"]))
    others = replace(population, seeds=tuple(seed + 1 for seed in population.seeds))
    pairs = tf.data.Dataset.zip(own, stream(others, batch_size, start_step=step))
    return pairs.map(lambda one, other: _chosen(one[0], one[1], other[0]["rule"]))


def _chosen(features: Any, target: Any, modules: Any) -> Any:
    return features, {"activation": modules, "target": target}
