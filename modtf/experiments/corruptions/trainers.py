"""How the variants are trained: on mixed views, with invariance, or a module for every corruption."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.checks import check_choice, check_integer, check_number
from modtf.experiments.corruptions.phases import ALL, PASS_THROUGH, Judge, ModulePhase, Views
from modtf.families.base_images import DATASETS
from modtf.families.orders import CORRUPTIONS, RULES, name_of
from modtf.training.compile import SettingLoss
from modtf.training.trainer import TrainerContext, checked_by

TEMPERATURE = 0.15
DENOMINATORS = ("with_positive", "negatives")  # the released code's, and that of the text


class ContrastiveLoss(keras.losses.Loss):
    """strength times the mean over anchors (image i, view r) of the sum over the image's other views s of
    -log(exp(sim(z_r, z_s) / T) / sum over all views of other images of exp(sim / T)), sim the cosine.

    Args:
        strength: lambda, at least 0.
        denominator: "negatives", that sum alone, as in the text; "with_positive" adds the numerator.

    Raises:
        ValueError: on another value.
    """

    def __init__(self, strength: float, denominator: str = DENOMINATORS[0], name: str = "contrast"):
        super().__init__(name=name)
        self.strength = check_number("strength", strength, 0.0, math.inf)
        check_choice("denominator", denominator, DENOMINATORS)
        self.with_positive = denominator == DENOMINATORS[0]

    def call(self, y_true, y_pred):
        """Of views [B, N, F]; classes are not looked at."""
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
CHOICES = {"noise": NOISE, "denominator": DENOMINATORS, "pass_through": PASS_THROUGH}
LIMITS = {"strength": math.inf, "longer": math.inf, "search": 1.0, "id_rate": 1.0}  # from 0 on


def check_options(**options: Any) -> None:
    """Raises `ValueError` on an option of one of the trainers that is out of range."""
    for name, value in options.items():
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
        elif name in LIMITS:
            check_number(name, value, 0.0, LIMITS[name])


def _epochs(context: TrainerContext) -> float:
    """Of base images, each in all its views: of what plain training takes in the protocol's steps."""
    of = DATASETS[context.task.dataset]
    return context.training.steps / (
        len(RULES) * of.classes * of.sizes[0] // context.training.batch_size or 1
    )


def _train(context: TrainerContext, stage: str, model: Any, views: Views, steps: int, **how: Any) -> Judge:
    """One stage, which ends with the weights of the least validation loss."""
    judge = Judge(model, views)
    training = replace(how.pop("training", context.training), batch_size=views.batch_size)
    losses = dict(views.losses)
    context.fit(stage, model, views.train, steps, training=training, loss=losses, judge=judge, **how)
    return judge


@checked_by(check_options)
def erm(context: TrainerContext, noise: str = "stored", longer: float = 1.0) -> None:
    """Plain training: cross-entropy on images, each under a corruption of its own.

    Args:
        context: what is trained.
        noise: "stored", drawn once, as released, or "fresh" in every epoch.
        longer: how many times the protocol's steps it takes.
    """
    views = Views(context, None, noise, "each", {"target": SettingLoss("categorical")})
    steps = round(longer * context.training.steps)
    _train(context, "erm", context.model, views, max(1, steps))


@checked_by(check_options)
def contrastive(
    context: TrainerContext,
    strength: float = 0.1,
    denominator: str = DENOMINATORS[0],
    noise: str = "fresh",
    longer: float = 1.0,
) -> None:
    """All seven views of every image, whose features are to be alike.

    Args:
        context: what is trained.
        strength: lambda, of the contrastive loss.
        denominator: see `ContrastiveLoss`.
        noise, longer: see `erm`.
    """
    views = Views(context, ALL, noise, "all", _losses("features", strength, denominator))
    steps = views.steps(_epochs(context) * longer)
    _train(context, "contrastive", context.model, views, steps)


def _losses(output: str, strength: float, denominator: str) -> dict[str, Any]:
    contrast = {output: ContrastiveLoss(strength, denominator)}
    return {"target": SettingLoss("categorical"), **(contrast if strength > 0 else {})}


@checked_by(check_options)
def modular(
    context: TrainerContext,
    strength: float = 1.0,
    denominator: str = DENOMINATORS[0],
    noise: str = "fresh",
    id_rate: float = 0.1,
    search: float = 0.025,
    sites: int | Sequence[int] | None = None,
    pass_through: str = PASS_THROUGH[0],
) -> None:
    """A network of clean images, then for every corruption a module that undoes it, where it does so best.

    Args:
        context: what is trained; the protocol's learning rate is that of modules.
        strength, denominator, noise: see `contrastive`; here of a module's output and clean features.
        id_rate: learning rate of the network.
        search: share of a module's epochs, at a constant rate, after which sites are compared.
        sites: of all modules, or of each, in place of a search.
        pass_through: see `ModulePhase`.

    Raises:
        ValueError: on an option out of range.
    """
    network, losses = context.model, _losses("views", strength, denominator)
    given, epochs = _given_sites(sites, network.network.num_sites), _epochs(context)
    views = partial(Views, context, noise=noise, moved="all")
    clean = views(rules=ALL[:1], losses={"target": SettingLoss("categorical")})
    training = replace(context.training, learning_rate=id_rate)
    _train(context, "id", network, clean, clean.steps(epochs), training=training, measured=False)
    network.trainable = False
    found: dict[str, tuple[int, Any]] = {}
    for rule, name in enumerate(CORRUPTIONS, 1):
        pairs = views(rules=(rule, 0), losses=losses)

        def module(site: int, stage: str, steps: int, pairs: Views = pairs, **how: Any) -> tuple[Judge, Any]:
            made = network.module(stage.partition("_")[0], site, f"module_{stage}")
            phase = ModulePhase(network, site, made, pass_through)
            phase(next(iter(pairs.validation()))[0])
            return _train(context, stage, phase, pairs, steps, **how), made

        condition, site = name_of((name,)), given.get(name)
        if site is None:
            constant = replace(context.training, schedule=None)
            scores = []
            for place in range(network.network.num_sites):
                steps = pairs.steps(epochs * search)
                judge, _ = module(place, f"{condition}_site{place}", steps, training=constant)
                judge()
                scores.append(judge.accuracy)
                context.record(f"accuracy_site{place}", judge.accuracy, condition)
            site = int(np.argmax(scores))
        context.record("site", site, condition)
        found[name] = site, module(site, f"{condition}_final", pairs.steps(epochs))[1]
    network.trainable = True
    for name, (site, made) in found.items():
        network.attach(name, site, made)
    context.measure()


def _given_sites(sites: Any, number: int) -> dict[str, int]:
    """Corruption -> site; nothing where they are searched for."""
    if sites is None:
        return {}
    listed = [sites] * len(CORRUPTIONS) if isinstance(sites, int) else list(sites)
    if len(listed) != len(CORRUPTIONS) or not all(site in range(number) for site in listed):
        raise ValueError(
            f"sites={sites!r}: expected one of 0 to {number - 1}, or one for each of six modules."
        )
    return {name: check_integer("sites", site, 0) for name, site in zip(CORRUPTIONS, listed, strict=True)}
