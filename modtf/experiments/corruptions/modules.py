"""Stages of training: their batches and validation, and modules in a frozen network.

The compiled program of a site serves the modules of all corruptions.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from modtf.base.cache import Cache
from modtf.datasets import host_ops
from modtf.datasets.plan import StreamPlan
from modtf.datasets.streaming import pipeline
from modtf.evaluation.programs import pipelines_of
from modtf.experiments.corruptions.conditions import DATASETS, RULES
from modtf.experiments.corruptions.network import SummedLosses
from modtf.tasks.protocol import Training
from modtf.training.trainer import TrainerContext

ALL = tuple(range(len(RULES)))  # without those that a derived family adds
Batches = Sequence[tuple[Any, Any]]
PASS_THROUGH = ("both", "corrupted")


def rules_of(context: TrainerContext) -> tuple[int, ...]:
    """Return the rules of the family, with those that a derived family adds."""
    return tuple(range(context.task.num_rules))


@dataclass(frozen=True)
class Views:
    """Batches of images, each in some views.

    Views of as many other rules share a pipeline, and so do the variants of a population.

    Args:
        context: the trained model and its task.
        rules: of the views; None for a single view with a random rule for every image.
        noise: "fresh" draws impulse noise anew in every epoch.
        moved: how colour images are cropped and mirrored.
    """

    context: TrainerContext
    rules: Sequence[int] | None
    noise: str
    moved: str

    def of(self, *rules: int) -> "Views":
        """Return the views of as many other rules."""
        return replace(self, rules=rules)

    @property
    def batch_size(self) -> int:
        """The images in a batch: the number of views stays the same for any number of views per image."""
        return max(1, self.context.training.batch_size // len(self.rules or ALL[:1]))

    @property
    def per_epoch(self) -> int:
        of = DATASETS[self.context.task.dataset]
        return max(1, of.classes * of.sizes[0] // self.batch_size)

    def steps(self, epochs: float) -> int:
        return max(1, round(epochs * self.per_epoch))

    def train(self, outputs: Sequence[str]) -> Callable[[int], tf.data.Dataset]:
        """Return a function from a first step to the batches from there on, each output with a target."""

        def starting_at(step: int) -> tf.data.Dataset:
            made = self._stream("train", step)
            return made.map(lambda features, target: (features, dict.fromkeys(outputs, target)))

        return starting_at

    def validation(self) -> Batches:
        """Return whole batches, of at most as many images as the final evaluation reads, or all."""
        task, sizes = self.context.task, self.context.sizes
        of = DATASETS[task.dataset]
        most = min(of.classes * of.sizes[1], sizes.batches * sizes.batch_size)
        return list(self._stream("validation", 0).take(max(1, most // self.batch_size)))

    def _stream(self, split: str, step: int) -> tf.data.Dataset:
        coloured, training = DATASETS[self.context.task.dataset].coloured, split == "train"
        moved = self.moved if coloured and (training or self.moved == "all") else "no"
        options = {"fresh": self.noise == "fresh" and training, "moved": moved}
        number = len(self.rules) if self.rules else None
        population, size = self.context.population, self.batch_size
        starting_at = pipelines_of(population).get_or_make(
            (split, size, number, *options.values()),
            lambda: pipeline(
                StreamPlan.of(population, host_ops, size, split, seq_len=number, options=options)
            ),
        )
        views = {} if self.rules is None else {"views": tf.constant(self.rules, tf.int32)}
        return starting_at(step, views)


class Judge:
    """Losses and accuracies of a model on validation batches, for each group of outputs.

    Args:
        model: returns all these outputs.
        groups: losses by output; the first output of a group holds its logits, if there are any.
        batches: may be replaced by others of the same shapes.

    Attributes:
        losses, accuracies: the latest values of each group; accuracies in %, NaN without logits.
    """

    def __init__(self, model: keras.Model, groups: Sequence[Mapping[str, Any]], batches: Batches):
        self.model, self.batches = model, batches
        self.losses = self.accuracies = np.full(len(groups), np.nan)

        @tf.function(autograph=False)
        def step(features: Any, target: Any) -> Any:
            outputs = model(features, training=False)
            found = []
            for losses in groups:
                first = next(iter(losses))
                right = ops.argmax(outputs[first], axis=-1) == ops.cast(target, "int32")
                accuracy = 100.0 * ops.mean(ops.cast(right, "float32")) if "target" in first else np.nan
                loss = sum(loss(target, outputs[name]) for name, loss in losses.items())
                found.append((loss, accuracy))
            return found

        self._step = step

    def __call__(self) -> float:
        """Return the first group's loss."""
        losses = np.mean([self._step(*batch) for batch in self.batches], axis=0)
        self.losses, self.accuracies = losses[:, 0], losses[:, 1]
        return float(self.losses[0])


def normalised(network: Any, features: Mapping[str, Any]) -> Any:
    """Return the images of a batch as the network's input [B N, H, W, 3]."""
    images = features["inputs"]
    x = ops.cast(ops.reshape(images, [-1, *images.shape[2:]]), network.compute_dtype)
    return network.normalised(x)


class LeastLoss(keras.callbacks.Callback):
    """The accuracies at the least validation loss of every group, not those after the last epoch."""

    def __init__(self, judge: Judge):
        super().__init__()
        self.judge = judge
        self.losses = np.full(len(judge.losses), np.inf)
        self.accuracies = np.zeros(len(judge.losses))

    def on_epoch_end(self, epoch, logs=None):
        self.judge()
        better = self.judge.losses < self.losses
        self.losses = np.where(better, self.judge.losses, self.losses)
        self.accuracies = np.where(better, self.judge.accuracies, self.accuracies)

    def state(self) -> dict[str, np.ndarray]:
        return {"losses": self.losses, "accuracies": self.accuracies}

    def load_state(self, state: Mapping[str, np.ndarray]) -> None:
        self.losses, self.accuracies = state["losses"], state["accuracies"]


class ModulePhase(SummedLosses):
    """A frozen network in inference mode, and modules at some of its sites, each trained independently.

    Args:
        network: the network around the modules.
        sites: of the modules, which the phase creates.
        losses: returns two losses per site, for "target" and "views", or only the first; see `outputs`.
        pass_through: "both" views through a module, or only the first, the "corrupted" one.
    """

    compiled_by_xla = False

    def __init__(
        self, network: Any, sites: Sequence[int], *, losses: Callable[[], Sequence[Any]],
        pass_through: str = PASS_THROUGH[0],
    ):  # fmt: skip
        super().__init__(name="modules")
        self.network, self.sites = network, tuple(sites)
        self.modules = [network.module("", site, f"phase{site}") for site in self.sites]
        self.both = pass_through == PASS_THROUGH[0]
        #: losses by output for each site: logits, and the features before the network's next part
        self.groups = [dict(zip(self.outputs(site), losses(), strict=False)) for site in self.sites]
        self.built = True

    @staticmethod
    def outputs(site: int) -> tuple[str, ...]:
        """Return the names of a site's outputs."""
        return f"target{site}", f"views{site}"

    @property
    def losses_by_output(self) -> dict[str, Any]:
        """Return all losses together."""
        return {name: loss for group in self.groups for name, loss in group.items()}

    def call(self, features, training=None):
        """Apply a module to pairs (corrupted, clean); views are the module's output and the clean image."""
        network, before = self.network, 0
        outputs: dict[str, Any] = {}
        x = normalised(network, features)
        for site, module in zip(self.sites, self.modules, strict=True):
            x, before = network.through(x, before, site, training=False), site
            answered = zip(self.outputs(site), self._answered(x, site, module, training), strict=True)
            outputs |= dict(answered)
        return outputs

    def _answered(self, x: Any, site: int, module: Any, training: Any) -> tuple[Any, Any]:
        """Return logits [B, 2, C] and views [B, 2, F] of one site."""
        after = module(x, training=training)
        pairs = [ops.reshape(h, [-1, 2, *h.shape[1:]]) for h in (x, after)]
        views = ops.stack([pairs[1][:, 0], pairs[0][:, 1]], axis=1)
        seen = ops.reshape(pairs[1] if self.both else views, [-1, *x.shape[1:]])
        logits = self.network.through(seen, site, training=False)
        width = int(np.prod(x.shape[1:]))
        return ops.reshape(logits, [-1, 2, logits.shape[-1]]), ops.reshape(views, [-1, 2, width])

    def start_from(self, modules: Sequence[Any]) -> None:
        """Build new modules, one for every site, and copy their weights into the compiled modules."""
        for own, other in zip(self.modules, modules, strict=True):
            other.build(own.input_shape)
            copy_weights(other, own)


def copy_weights(source: Any, target: Any) -> None:
    """Copy all variables of a module, the states of its dropout among them."""
    for variable, original in zip(target.variables, source.variables, strict=True):
        variable.assign(original)


_kept = Cache(1)  # the last frozen network, and the judges of its stages


def _frozen(network: Any, key: Hashable) -> tuple[Any, Cache]:
    """Return a frozen network with the weights of `network`, and the judges so far of it and of its phases.

    Members of a cell use the same one, since compiling its phases costs more than a short training.
    """
    config = {name: value for name, value in network.get_config().items() if name != "population"}
    key = type(network), network.population.shape, repr(sorted(config.items())), key
    copy, judges = _kept.get_or_make(key, lambda: (type(network)(**network.get_config()), Cache()))
    copy.trainable = False
    copy.become(network)
    return copy, judges


class ModuleStages:
    """The stages that train modules, including the searches for their sites.

    Args:
        context: of the frozen network.
        views: pairs of views; other corruptions reuse their pipelines.
        phase: makes the model of modules at some sites, from the network and the sites.
        key: equal for phases that can replace each other in a network of the same shape.
    """

    def __init__(
        self, context: TrainerContext, views: Views, phase: Callable[..., "ModulePhase"], key: Hashable
    ):
        self.context, self.network, self.views, self.phase = context, context.model, views, phase
        self._frozen, self._judges = _frozen(context.model, key)
        self._validation = Cache(1)

    def train_network(
        self, stage: str, views: Views, losses: dict[str, Any], steps: int, training: Training
    ) -> None:
        """Train the network itself, in place of which every member trains the kept one."""
        batches, (network, context) = views.validation(), (self._frozen, self.context)
        judge = self._judges.get_or_make("network", lambda: Judge(network, [losses], batches))
        judge.batches = batches
        network.trainable, context.model = True, network
        try:
            training = replace(training, batch_size=views.batch_size)
            how: dict[str, Any] = {"training": training, "loss": losses, "judge": judge, "measured": False}
            context.fit(stage, network, views.train(tuple(losses)), steps, **how)
        finally:
            network.trainable, context.model = False, self.network
        self.network.become(network)

    def search(self, rule: int, epochs: float, by_least_loss: bool) -> np.ndarray:
        """Train a module at every site, at a constant rate, and return their validation accuracies in %."""
        sites, name = range(self.network.network.num_sites), RULES[rule].lower()
        made = [self.network.module(name, site, f"module_{name}_site{site}") for site in sites]
        phase, judge = self._started(rule, tuple(sites), made)
        least = [LeastLoss(judge)] if by_least_loss else []
        constant = replace(self.context.training, schedule=None)
        self._fit(f"{name}_search", phase, rule, epochs, constant, callbacks=least)
        if not by_least_loss:
            judge()
        return least[0].accuracies if least else judge.accuracies

    def train(self, rule: int, site: int, epochs: float, training: Training | None = None) -> Any:
        """Train a module at a site and return it, with the weights of its least validation loss."""
        name = RULES[rule].lower()
        made = self.network.module(name, site, f"module_{name}_final")
        phase, judge = self._started(rule, (site,), [made])
        self._fit(f"{name}_final", phase, rule, epochs, training or self.context.training, judge=judge)
        copy_weights(phase.modules[0], made)
        return made

    def _started(
        self, rule: int, sites: tuple[int, ...], modules: Sequence[Any]
    ) -> tuple["ModulePhase", Judge]:
        def new() -> Judge:
            phase = self.phase(self._frozen, sites)
            phase(batches[0][0])  # creates the weights of its modules
            return Judge(phase, phase.groups, batches)

        batches = self._validation.get_or_make(rule, self.views.of(rule, 0).validation)
        judge = self._judges.get_or_make(sites, new)
        judge.batches = batches
        judge.model.start_from(modules)
        return judge.model, judge

    def _fit(
        self, stage: str, phase: "ModulePhase", rule: int, epochs: float, training: Training, **how: Any
    ) -> None:
        views, losses = self.views.of(rule, 0), phase.losses_by_output
        training = replace(training, batch_size=views.batch_size)
        batches, steps = views.train(tuple(losses)), views.steps(epochs)
        self.context.fit(stage, phase, batches, steps, training=training, loss=losses, **how)
