"""The network for corrupted images: one of two published networks, with modules that undo corruptions."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from keras import layers, ops

from modtf.base.checks import check_choice
from modtf.experiments.corruptions.base_images import DATASETS
from modtf.experiments.corruptions.network_parts import COLOURS, ResNet18, SmallNetwork
from modtf.experiments.corruptions.orders import CORRUPTIONS, LONGEST, RULES
from modtf.models.architectures import register_architecture
from modtf.models.base import ModularModel
from modtf.tasks.task import random_key

#: statistics of CIFAR-10, by channel
MEAN, DEVIATION = (0.49086, 0.48183, 0.44629), (0.24672, 0.24326, 0.26158)
SKIP = 1  # the identity counts as a module of the router
LABELS = ("multi_hot", "mean")  # of a composition of corruptions


@register_architecture("corruptions")
class CorruptionsNetwork(ModularModel):
    """The network for the task's images, with one module per corruption, with routed modules, or with none.

    Options:
        told: whether the network is told each image's corruptions and applies their modules. The trainer sets
            the `sites`, by corruption; until then there are no such modules.
        autoencoders: whether these modules are auto-encoders, which map images to images, at site 0.
        labelled: whether each image has another channel for every corruption, constant over the image: the
            corruptions' label.
        label: of a composition, which training never shows: 1 for each of its corruptions, "multi_hot", or
            1 divided by their number, "mean". It does not tell their order.
        site: the site of the modules that the router chooses between; by default the second to last.

    Outputs:
        target [B, N, C]; features [B, N, F], the classifier's input; and with modules activation [B, N, M].
    """

    has_members_axis, compiled_by_xla, takes_single_rules = False, False, False
    needs: ClassVar = {"label": "labelled", "autoencoders": "told"}

    def make_layers(
        self,
        told: bool = False,
        site: int | None = None,
        sites: Mapping[str, int] | None = None,
        autoencoders: bool = False,
        labelled: bool = False,
        label: str = LABELS[0],
    ):
        task, seed = self.population.members[0]
        self.dataset, self.told, self.autoencoders = DATASETS[task.dataset], told, autoencoders
        if self.dtype_policy.name != "float32":
            raise ValueError(
                f"dtype={self.dtype_policy.name!r}: the network 'corruptions' computes in float32. Leave out "
                "dtype, or --precision."
            )
        check_choice("label", label, LABELS)
        self.label = label if labelled else None
        if (told or labelled) and self.population.family.rule_names(task) != RULES:
            raise ValueError(
                f"variant={self.variant!r} receives the corruptions {', '.join(CORRUPTIONS)} only, but "
                f"arch={task.arch!r} has others. Choose a variant that receives no corruption, such as erm."
            )

        def draw(name: str) -> int:
            return random_key(task, seed, "weights", name) % (1 << 31)

        kind = ResNet18 if self.dataset.coloured else SmallNetwork
        channels = COLOURS + labelled * len(CORRUPTIONS)
        self.network = kind(draw, self.width, self.dataset.classes, channels)
        self.parts = self.network.parts()
        self.placed: dict[int, int] = {}  # rule -> site of its module
        for name, place in (sites or {}).items():
            self.attach(name, place, self.module(name, place))
        router = self.make_router(self.num_rules)
        self.site = self._check_site(self.network.num_sites - 2 if site is None else site)
        self.modules: list[layers.Layer] = []
        if router.num_modules > 1:
            self._make_routed(router)

    def _make_routed(self, router: Any) -> None:
        if router.depends_only_on_rule:
            raise ValueError(
                f"variant={self.variant!r} routes by the rule alone, but this network does not receive the "
                "corruption. Choose a router that reads scores, such as that of the variant routed."
            )
        self.router = router
        self.modules = [
            self.network.module(self.site, f"module{n}") for n in range(router.num_modules - SKIP)
        ]
        self.scores = [layers.Dense(1, name=f"score{n}") for n in range(router.num_modules)]

    def _check_site(self, site: Any) -> int:
        if site not in range(self.network.num_sites):
            raise ValueError(f"site={site!r} is not valid; expected 0 to {self.network.num_sites - 1}.")
        return site

    # The trainer of modules calls these.

    def module(self, corruption: str, site: int, name: str | None = None) -> layers.Layer:
        """Return a new module for a corruption, by name. Its weights follow from (task, seed, name)."""
        name, site = name or _attribute(corruption), self._check_site(site)
        return self.network.autoencoder(name) if self.autoencoders else self.network.module(site, name)

    def attach(self, corruption: str, site: int, module: layers.Layer) -> None:
        """Put the module of a corruption at its site, once, with its weights: a file has to hold them."""
        if not module.built:
            shape = self.population.family.token_shape(self.population.task)
            module(self.through(ops.zeros([1, *shape], self.compute_dtype), 0, site))
        self.placed[RULES.index(corruption)] = site
        setattr(self, _attribute(corruption), module)  # an attribute, so that Keras tracks it
        self.options = {**self.options, "sites": {**(self.options.get("sites") or {}), corruption: site}}

    def normalised(self, images: Any) -> Any:
        """Map uint8 images, as numbers [K, H, W, 3], to the input of the first part."""
        if not self.dataset.coloured:
            return images / 127.5 - 1.0
        mean, deviation = (ops.cast(np.array(v), images.dtype) for v in (MEAN, DEVIATION))
        return (images / 255.0 - mean) / deviation

    def through(self, x: Any, first: int, last: int | None = None, **how: Any) -> Any:
        """Apply the parts first ... last - 1."""
        for part in self.parts[first:last]:
            x = part(x, **how)
        return x

    # Keras calls these.

    def forward(self, inputs, rule):
        views, orders = rule.shape[1], ops.reshape(rule, [-1])
        x = self.normalised(ops.reshape(inputs, [-1, *inputs.shape[2:]]))
        if self.label:
            x = self._with_label(x, orders)
        outputs = {}
        for number, part in enumerate(self.parts):
            if self.told:
                x = self._undone(number, x, orders)
            if self.modules and number == self.site:
                x, outputs["activation"] = self._routed(x, rule)
            if number == len(self.parts) - 1:
                outputs["features"] = ops.reshape(x, [-1, views, x.shape[-1]])
            x = part(x)
        if self.told:
            outputs["activation"] = self._applied(rule)
        return {**outputs, "target": ops.reshape(x, [-1, views, x.shape[-1]])}

    def _routed(self, x: Any, rule: Any) -> tuple[Any, Any]:
        """Return sum_m p_m module_m(x), where module 0 is the identity, and p [B, N, M]. The scores come from
        the modules' outputs for an image."""
        made = [x, *(module(x) for module in self.modules)]
        scores = [score(self._pooled(one)) for score, one in zip(self.scores, made, strict=True)]
        scores = ops.reshape(ops.concatenate(scores, axis=1), [-1, rule.shape[1], len(made)])
        p = self.route(ops.zeros_like(rule), None, lambda: scores)
        weights = ops.reshape(p, [-1, len(made), *[1] * (len(x.shape) - 1)])
        return sum(weights[:, m] * one for m, one in enumerate(made)), p

    def _pooled(self, x: Any) -> Any:
        return ops.mean(x, axis=(1, 2)) if len(x.shape) == 4 else x

    def _undone(self, site: int, x: Any, orders: Any) -> Any:
        """Apply the modules of this site for the corruptions of each image, in their order."""
        rules = [rule for rule, place in self.placed.items() if place == site]
        undo = {rule: getattr(self, _attribute(RULES[rule])) for rule in rules}
        places = {rule: self._turn(rule, orders) for rule in undo}

        def following(place: Any, x: Any) -> tuple[Any, Any]:
            for rule, module in undo.items():
                x = self._where(ops.equal(places[rule], place), module, x)
            return place + 1, x

        return ops.while_loop(lambda place, _: place < LONGEST, following, (0, x))[1] if undo else x

    def _where(self, now: Any, module: layers.Layer, x: Any) -> Any:
        chosen = ops.reshape(now, [-1, *[1] * (len(x.shape) - 1)])
        return ops.cond(ops.any(now), lambda: ops.where(chosen, module(x), x), lambda: x)

    def _turn(self, rule: int, orders: Any) -> Any:
        """Return the position of a corruption in orders [K], 6 if it is absent."""
        powers = ops.convert_to_tensor(len(RULES) ** np.arange(LONGEST), orders.dtype)
        digits = (orders[:, None] // powers) % len(RULES)
        return ops.sum(ops.cast(ops.cumsum(ops.cast(digits == rule, "int32"), axis=1) == 0, "int32"), axis=1)

    def _flags(self, orders: Any) -> list[Any]:
        """Return for each corruption whether it is among orders [K], 1 or 0."""
        return [ops.cast(self._turn(r, orders) < LONGEST, self.compute_dtype) for r in range(1, len(RULES))]

    def _with_label(self, x: Any, orders: Any) -> Any:
        """Append the label's channels to images [K, H, W, 3]."""
        label = ops.stack(self._flags(orders), axis=-1)
        if self.label == "mean":
            label = label / ops.maximum(ops.sum(label, axis=-1, keepdims=True), 1.0)
        planes = ops.ones_like(x[..., :1]) * label[:, None, None, :]
        return ops.concatenate([x, planes], axis=-1)

    def _applied(self, rule: Any) -> Any:
        """Return the modules of the corruptions, one per rule, as probabilities [B, N, R]."""
        flags = self._flags(ops.reshape(rule, [-1]))
        none = 1.0 - ops.minimum(sum(flags), 1.0)
        applied = ops.stack([none, *flags], axis=-1)
        applied = applied / ops.sum(applied, axis=-1, keepdims=True)
        return ops.reshape(applied, [-1, rule.shape[1], len(RULES)])


def _attribute(corruption: str) -> str:
    return f"module_{corruption.lower()}"
