"""The trainers of the variants: mixed views, invariance, or a module for every corruption."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.base.checks import check_choice, check_integer, check_number
from modtf.experiments.corruptions import STAGE_RATES
from modtf.experiments.corruptions.conditions import CORRUPTIONS, DATASETS, name_of
from modtf.experiments.corruptions.modules import (
    ALL,
    PASS_THROUGH,
    Judge,
    ModulePhase,
    ModuleStages,
    Views,
    rules_of,
)
from modtf.training.compile import SettingLoss
from modtf.training.trainer import TrainerContext, checked_by

TEMPERATURE = 0.15
DENOMINATORS = ("with_positive", "negatives")  # of the released code, and of the paper's text


class ContrastiveLoss(keras.losses.Loss):
    """The contrastive loss: the mean over anchors (image i, view r) of a sum over the image's other views s.

    The summand is -log(exp(sim(z_r, z_s) / T) / sum over all views of other images of exp(sim / T)), where
    sim is the cosine. The mean is multiplied by `strength`.

    Args:
        strength: lambda, at least 0.
        denominator: "negatives" is that sum alone, as in the text; "with_positive" adds the numerator.

    Raises:
        ValueError: if an argument has another value.
    """

    def __init__(self, strength: float, denominator: str = DENOMINATORS[0], name: str = "contrast"):
        super().__init__(name=name)
        self.strength = check_number("strength", strength, 0.0, math.inf)
        check_choice("denominator", denominator, DENOMINATORS)
        self.with_positive = denominator == DENOMINATORS[0]

    def call(self, y_true, y_pred):
        """Return the loss of views [B, N, F]; it ignores classes."""
        images, views, width = y_pred.shape
        z = ops.reshape(y_pred, [-1, width])
        z = z * ops.rsqrt(ops.maximum(ops.sum(z * z, axis=1, keepdims=True), 1e-12))
        similar = ops.matmul(z, ops.transpose(z)) / TEMPERATURE  # [B N, B N]
        image = ops.arange(images * views) // views
        same = image[:, None] == image
        itself = ops.eye(images * views, dtype="bool")
        least = ops.cast(-1e9, similar.dtype)
        negatives = ops.logsumexp(ops.where(same, least, similar), axis=1, keepdims=True)
        below = ops.logaddexp(negatives, similar) if self.with_positive else negatives
        positives = ops.logical_and(same, ops.logical_not(itself))
        terms = ops.where(positives, below - similar, ops.zeros_like(similar))
        return self.strength * ops.sum(terms) / (images * views)


NOISE = ("stored", "fresh")
SEARCH_WEIGHTS = ("last", "best")
CLASSIFIERS = ("identity", "joint")
CHOICES = {
    "noise": NOISE,
    "denominator": DENOMINATORS,
    "pass_through": PASS_THROUGH,
    "search_weights": SEARCH_WEIGHTS,
    "classifier": CLASSIFIERS,
}
SEARCH = 0.025  # the published share
#: upper; the lower is 0
LIMITS = {"strength": math.inf, "longer": 1e6, "search": 1.0, "id_rate": 1.0, "autoencoder_rate": 1.0}


def check_trainer_options(**options: Any) -> None:
    """Raise `ValueError` if an option of one of the trainers is out of range."""
    for name, value in options.items():
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        elif name in LIMITS:
            check_number(name, value, 0.0, LIMITS[name])
    searched = options.get("search", SEARCH), options.get("search_weights", SEARCH_WEIGHTS[0])
    if options.get("sites") is not None and searched != (SEARCH, SEARCH_WEIGHTS[0]):
        raise ValueError("sites are given, so search and search_weights have no meaning. Leave them out.")


def epochs_of_images(context: TrainerContext) -> float:
    """Return the epochs of base images (in all their views) in the steps of plain training."""
    of = DATASETS[context.task.dataset]
    return context.training.steps / (
        len(rules_of(context)) * of.classes * of.sizes[0] // context.training.batch_size or 1
    )


Losses = dict[str, Any]


def train_stage(
    context: TrainerContext, stage: str, model: Any, views: Views, losses: Losses, steps: int, **how: Any
) -> None:
    """Train one stage, which ends with the weights of the least validation loss."""
    judge = Judge(model, [losses], views.validation())
    training = replace(how.pop("training", context.training), batch_size=views.batch_size)
    context.fit(
        stage, model, views.train(tuple(losses)), steps, training=training, loss=losses, judge=judge, **how
    )


@checked_by(check_trainer_options, reusable=True)
def erm(context: TrainerContext, noise: str = "stored", longer: float = 1.0) -> None:
    """Train plainly: cross-entropy on images, each under its own random corruption.

    Args:
        context: the model to train, with its task and protocol.
        noise: "stored" is drawn once, as in the released data; "fresh" in every epoch.
        longer: multiplies the protocol's number of steps.
    """
    views, losses = Views(context, None, noise, "each"), {"target": _losses(0.0)[0]}
    steps = round(longer * context.training.steps)
    train_stage(context, "erm", context.model, views, losses, max(1, steps))


@checked_by(check_trainer_options, reusable=True)
def contrastive(
    context: TrainerContext,
    strength: float = 0.1,
    denominator: str = DENOMINATORS[0],
    noise: str = "fresh",
    longer: float = 1.0,
) -> None:
    """Train on the views of every image under each rule, with a loss that makes their features alike.

    Args:
        context: the model to train, with its task and protocol.
        strength: lambda, the weight of the contrastive loss.
        denominator: see `ContrastiveLoss`.
        noise, longer: see `erm`.
    """
    views = Views(context, rules_of(context), noise, "all")
    _check_images(views, strength)
    losses = dict(zip(("target", "features"), _losses(strength, denominator), strict=False))
    steps = views.steps(epochs_of_images(context) * longer)
    train_stage(context, "contrastive", context.model, views, losses, steps)


def _check_images(views: Views, strength: float) -> None:
    """Raise `ValueError` if a batch has a single image, which has no other one to be compared with."""
    if strength > 0 and views.batch_size < 2:
        number = len(views.rules or ALL[:1])
        raise ValueError(
            f"batch_size={views.context.training.batch_size} holds one image in {number} views, and the "
            f"contrastive loss compares two. Expected at least {2 * number}."
        )


@cache  # a model that is compiled with the same losses keeps its programs
def _losses(strength: float, denominator: str = DENOMINATORS[0]) -> list[keras.losses.Loss]:
    """Return the losses of the classes and, unless its strength is 0, of the contrast of views."""
    contrast = [ContrastiveLoss(strength, denominator)] if strength > 0 else []
    return [SettingLoss("categorical"), *contrast]


@checked_by(check_trainer_options)
def modular(
    context: TrainerContext,
    strength: float = 1.0,
    denominator: str = DENOMINATORS[0],
    noise: str = "fresh",
    id_rate: float = STAGE_RATES["modular"][1],
    search: float = SEARCH,
    sites: int | Sequence[int] | None = None,
    pass_through: str = PASS_THROUGH[0],
    search_weights: str = SEARCH_WEIGHTS[0],
) -> None:
    """Train a network on clean images, then for every corruption a module that undoes it, at its best site.

    Args:
        context: the model to train; the protocol's learning rate applies to modules.
        strength, denominator, noise: see `contrastive`; they compare a module's output with clean features.
        id_rate: learning rate of the network.
        search: share of a module's epochs, at a constant rate, after which sites are compared. Modules at all
            sites are trained on the same batches, independently. The default is the published share, which
            is a few steps of a short training: the results say how many, `search_steps`.
        sites: fixed for all modules, or one for each, instead of a search.
        pass_through: see `ModulePhase`.
        search_weights: the weights of a module to compare: the "last" ones of its search, as in the released
            code, or the "best", with the smallest validation loss.

    Raises:
        ValueError: if an option is out of range.
    """
    network, losses = context.model, partial(_losses, strength, denominator)
    fixed_sites, epochs = _given_sites(sites, network.network.num_sites), epochs_of_images(context)
    phase, key = partial(ModulePhase, losses=losses, pass_through=pass_through), (strength, denominator)
    pairs = Views(context, (1, 0), noise, "all")
    _check_images(pairs, strength)
    stages = ModuleStages(context, pairs, phase, (*key, pass_through))
    clean, training = Views(context, ALL[:1], noise, "all"), replace(context.training, learning_rate=id_rate)
    of_class = {"target": _losses(0.0)[0]}
    stages.train_network("id", clean, of_class, clean.steps(epochs), training)
    best: dict[str, tuple[int, Any]] = {}
    for rule, name in enumerate(CORRUPTIONS, 1):
        site = fixed_sites.get(name)
        if site is None:
            accuracies = stages.search(rule, epochs * search, search_weights == SEARCH_WEIGHTS[1])
            for place, accuracy in enumerate(accuracies):
                context.record(f"accuracy_site{place}", accuracy, name_of((name,)))
            context.record("search_steps", pairs.steps(epochs * search), name_of((name,)))
            site = int(np.argmax(accuracies))
        context.record("site", site, name_of((name,)))
        best[name] = site, stages.train(rule, site, epochs)
    for name, (site, made) in best.items():
        network.attach(name, site, made)
    context.measure()


def _given_sites(sites: Any, number: int) -> dict[str, int]:
    """Return corruption -> site; an empty mapping if the sites are to be searched."""
    if sites is None:
        return {}
    listed = list(sites) if isinstance(sites, list | tuple) else [sites] * len(CORRUPTIONS)
    if len(listed) != len(CORRUPTIONS) or not all(site in range(number) for site in listed):
        raise ValueError(
            f"sites={sites!r} is not valid; expected an integer between 0 and {number - 1}, or one for each "
            "of six modules."
        )
    return {name: check_integer("sites", site, 0) for name, site in zip(CORRUPTIONS, listed, strict=True)}
