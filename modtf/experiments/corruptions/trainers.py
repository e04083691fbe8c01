"""How the variants are trained: on mixed views, with invariance, or a module for every corruption."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modtf.checks import check_choice, check_integer, check_number
from modtf.datasets.streaming import stream
from modtf.experiments.corruptions.contrast import DENOMINATORS, ContrastiveLoss
from modtf.families.base_images import DATASETS
from modtf.families.orders import CORRUPTIONS, RULES, name_of
from modtf.training.compile import SettingLoss
from modtf.training.trainer import TrainerContext

ALL = tuple(range(len(RULES)))
NOISE = ("stored", "fresh")
PASS_THROUGH = ("both", "corrupted")


@dataclass(frozen=True)
class Views:
    """Batches of images, each in some views.

    Args:
        context: whose task.
        rules: of the views; None for a single one, drawn for every image.
        noise: "fresh" draws impulse noise anew in every epoch.
        moved: how images of colour are cropped and mirrored.
        losses: the outputs of which the class is the target.
    """

    context: TrainerContext
    rules: Sequence[int] | None
    noise: str
    moved: str
    losses: Mapping[str, Any]

    @property
    def batch_size(self) -> int:
        """As many views in a batch, whatever their number."""
        return max(1, self.context.training.batch_size // len(self.rules or ALL[:1]))

    @property
    def per_epoch(self) -> int:
        of = DATASETS[self.context.task.dataset]
        return max(1, of.classes * of.sizes[0] // self.batch_size)

    def steps(self, epochs: float) -> int:
        return max(1, round(epochs * self.per_epoch))

    def train(self, step: int) -> tf.data.Dataset:
        """From a step on."""
        return self._stream("train", step)

    def validation(self) -> tf.data.Dataset:
        """As many batches as the final evaluation reads, or as there are."""
        task, sizes = self.context.task, self.context.sizes
        of = DATASETS[task.dataset]
        most = min(of.classes * of.sizes[1], sizes.batches * sizes.batch_size)
        return self._stream("validation", 0).take(max(1, most // self.batch_size)).cache()

    def _stream(self, split: str, step: int) -> tf.data.Dataset:
        coloured = DATASETS[self.context.task.dataset].coloured
        moved = self.moved if coloured and (split == "train" or self.moved == "all") else "no"
        options: dict[str, Any] = {"fresh": self.noise == "fresh" and split == "train", "moved": moved}
        options |= {} if self.rules is None else {"views": np.array(self.rules, np.int32)}
        made = stream(
            self.context.population, self.batch_size, split,
            seq_len=len(self.rules) if self.rules else None, options=options, start_step=step,
        )  # fmt: skip
        return made.map(lambda features, target: (features, dict.fromkeys(self.losses, target)))


class Judge:
    """The total loss of a model on its validation set; remembers the accuracy, in %."""

    def __init__(self, model: keras.Model, views: Views):
        self._batches, self.accuracy = views.validation(), 0.0

        @tf.function(autograph=False)
        def step(features: Any, target: Any) -> Any:
            outputs = model(features, training=False)
            loss = sum(loss(target[name], outputs[name]) for name, loss in views.losses.items())
            right = ops.argmax(outputs["target"], axis=-1) == ops.cast(target["target"], "int32")
            return loss, ops.mean(ops.cast(right, "float32"))

        self._step = step

    def __call__(self) -> float:
        found = [[float(value) for value in self._step(*batch)] for batch in self._batches]
        loss, accuracy = np.mean(found, axis=0)
        self.accuracy = 100.0 * accuracy
        return loss


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


def erm(context: TrainerContext, noise: str = "stored", longer: float = 1.0) -> None:
    """Plain training: cross-entropy on images, each under a corruption of its own.

    Args:
        context: what is trained.
        noise: "stored", drawn once, as released, or "fresh" in every epoch.
        longer: how many times the protocol's steps it takes.
    """
    check_choice("noise", noise, NOISE)
    views = Views(context, None, noise, "each", {"target": SettingLoss("categorical")})
    steps = round(check_number("longer", longer, 0.0, math.inf) * context.training.steps)
    _train(context, "erm", context.model, views, max(1, steps))


def contrastive(
    context: TrainerContext,
    strength: float = 0.1,
    denominator: str = DENOMINATORS[0],
    noise: str = "fresh",
) -> None:
    """All seven views of every image, whose features are to be alike.

    Args:
        context: what is trained.
        strength: lambda, of the contrastive loss.
        denominator: see `ContrastiveLoss`.
        noise: see `erm`.
    """
    check_choice("noise", noise, NOISE)
    views = Views(context, ALL, noise, "all", _losses("features", strength, denominator))
    _train(context, "contrastive", context.model, views, views.steps(_epochs(context)))


def _losses(output: str, strength: float, denominator: str) -> dict[str, Any]:
    contrast = {output: ContrastiveLoss(strength, denominator)}
    return {"target": SettingLoss("categorical"), **(contrast if strength > 0 else {})}


class ModulePhase(keras.Model):
    """A frozen network, in inference mode, and a module at one of its sites.

    Args:
        network: of whose parts.
        site: where.
        module: what is trained.
        pass_through: "both" views through it, or the "corrupted" one, the first, alone.
    """

    compiled_by_xla = False

    def __init__(self, network: Any, site: int, module: Any, pass_through: str):
        super().__init__(name=module.name)
        self.network, self.module = network, module
        self.site, self.both = site, pass_through == PASS_THROUGH[0]
        self.built = True

    def call(self, features, training=None):
        """Of pairs (corrupted, clean); "views" are what the module makes of the first, and the second."""
        network, images = self.network, features["inputs"]
        x = ops.cast(ops.reshape(images, [-1, *images.shape[2:]]), network.compute_dtype)
        before = network.through(network.normalised(x), 0, self.site, training=False)
        after = self.module(before, training=training)
        pairs = [ops.reshape(h, [-1, 2, *h.shape[1:]]) for h in (before, after)]
        views = ops.stack([pairs[1][:, 0], pairs[0][:, 1]], axis=1)
        seen = pairs[1] if self.both else views
        logits = network.through(ops.reshape(seen, [-1, *before.shape[1:]]), self.site, training=False)
        width = int(np.prod(before.shape[1:]))
        return {
            "target": ops.reshape(logits, [-1, 2, logits.shape[-1]]),
            "views": ops.reshape(views, [-1, 2, width]),
        }


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
    for name, value, choices in (("noise", noise, NOISE), ("pass_through", pass_through, PASS_THROUGH)):
        check_choice(name, value, choices)
    network, losses = context.model, _losses("views", strength, denominator)
    given, epochs = _given_sites(sites, network.network.num_sites), _epochs(context)
    search, rate = check_number("search", search, 0.0, 1.0), check_number("id_rate", id_rate, 0.0, 1.0)
    views = partial(Views, context, noise=noise, moved="all")
    clean = views(rules=ALL[:1], losses={"target": SettingLoss("categorical")})
    training = replace(context.training, learning_rate=rate)
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
