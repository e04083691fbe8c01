"""The networks for corrupted images, split into parts, and the modules that undo corruptions.

A network is a list of parts; site s comes before part s. A module keeps the shape of its input.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import keras
import numpy as np
from keras import initializers, layers, ops

from modtf.base.checks import check_choice
from modtf.experiments.corruptions.conditions import CORRUPTIONS, DATASETS, LONGEST, RULES
from modtf.models.architectures import register_architecture
from modtf.models.base import ModularModel
from modtf.tasks.task import random_key

DROPOUT = (0.1, 0.3, 0.5, 0.5)
COLOURS = 3  # channels of an image

Draw = Callable[[str], int]  # maps the name of a weight to its seed
#: statistics of CIFAR-10, by channel
MEAN, DEVIATION = (0.49086, 0.48183, 0.44629), (0.24672, 0.24326, 0.26158)
SKIP = 1  # the identity counts as a module of the router
LABELS = ("multi_hot", "mean")  # of a composition of corruptions


class Conv2D(layers.Conv2D):
    """A convolution with (kernel - 1) / 2 zeros on every side, for a stride of 1 or 2.

    Padding inside the convolution is faster than a layer of zeros before it: backpropagation skips the zeros.
    But for an even size and a stride of 2, Keras's "same" has one zero more behind the image than before it,
    and has to have one more before it. Image, kernel and result are mirrored then. The class has the name of
    Keras's, under which its weights are saved.
    """

    def convolution_op(self, inputs, kernel):
        """Return the convolution without bias."""
        sides = zip((1, 2), self.strides, self.kernel_size, strict=True)
        mirrored = [n for n, stride, size in sides if stride > 1 < size and inputs.shape[n] % stride == 0]
        if not mirrored:
            return super().convolution_op(inputs, kernel)
        taps = ops.flip(ops.convert_to_tensor(kernel), [n - 1 for n in mirrored])
        return ops.flip(super().convolution_op(ops.flip(inputs, mirrored), taps), mirrored)


class Parts:
    """A factory of layers. Initial weights are functions of (task, seed, name); `draw` maps a name to its
    seed."""

    def __init__(self, draw: Draw, name: str):
        self.draw, self.name, self.count = draw, name, 0

    def part(self, *modules: Any) -> keras.Sequential:
        return keras.Sequential(modules, name=self.name)

    def _named(self) -> str:
        self.count += 1
        return f"{self.name}_{self.count}"

    def dense(self, fan_in: int, units: int) -> layers.Layer:
        return layers.Dense(units, **self._uniform_named(fan_in))

    def conv(self, fan_in: int, filters: int, kernel: int, stride: int = 1, padding: int = 0) -> layers.Layer:
        """Return a convolution with `padding` zeros on every side."""
        return self._padded(filters, kernel, stride, padding, self._uniform_named(fan_in * kernel * kernel))

    def _padded(
        self, filters: int, kernel: int, stride: int, padding: int, how: dict[str, Any]
    ) -> keras.Sequential:
        if kernel == 2 * padding + 1 and stride <= 2:
            stack = [Conv2D(filters, kernel, stride, padding="same", **how)]
        else:
            stack = [layers.ZeroPadding2D(padding), layers.Conv2D(filters, kernel, stride, **how)]
        return keras.Sequential(stack, name=f"padded_{how['name']}")

    def transposed(self, filters: int, kernel: int, stride: int, padding: int, more: int) -> layers.Layer:
        """Return a transposed convolution, with PyTorch's `padding` and `output_padding=more`."""
        name = self._named()
        conv = layers.Conv2DTranspose(
            filters, kernel, stride, name=name, **self._uniform(filters * kernel * kernel)
        )
        sides = (padding, padding - more)
        crop = layers.Cropping2D((sides, sides)) if sides[1] >= 0 else None
        return keras.Sequential([conv, crop], name=f"cropped_{name}")

    def plain_conv(self, filters: int, kernel: int, stride: int = 1, padding: int = 0) -> layers.Layer:
        """Return a convolution without bias, with normal weights by its fan-out (He et al., 2015)."""
        name = self._named()
        normal = initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal", self.draw(name))
        how = {"name": name, "use_bias": False, "kernel_initializer": normal}
        return self._padded(filters, kernel, stride, padding, how)

    def norm(self) -> layers.Layer:
        return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=self._named())

    def _uniform_named(self, fan_in: int) -> dict[str, Any]:
        """Return the next name, and its initialisers."""
        name = self._named()
        return {"name": name, **self._uniform(fan_in)}

    def _uniform(self, fan_in: int) -> dict[str, Any]:
        """Return initialisers U(+-1/sqrt(fan_in)), for biases, too."""
        bound, name = 1.0 / math.sqrt(fan_in), f"{self.name}_{self.count}"
        return {
            "kernel_initializer": initializers.RandomUniform(-bound, bound, self.draw(f"{name}_kernel")),
            "bias_initializer": initializers.RandomUniform(-bound, bound, self.draw(f"{name}_bias")),
        }


class BasicBlock(layers.Layer):
    """Two 3 x 3 convolutions with a residual connection (He et al., 2016)."""

    def __init__(self, make: Parts, width_in: int, width: int, stride: int = 1):
        super().__init__(name=make._named())
        self.first = keras.Sequential([make.plain_conv(width, 3, stride, 1), make.norm(), layers.ReLU()])
        self.second = keras.Sequential([make.plain_conv(width, 3, 1, 1), make.norm()])
        around = stride > 1 or width_in != width
        self.around = keras.Sequential([make.plain_conv(width, 1, stride), make.norm()]) if around else None

    def call(self, x, training=None):
        other = x if self.around is None else self.around(x, training=training)
        return keras.ops.relu(self.second(self.first(x, training=training), training=training) + other)


class SmallNetwork:
    """The network for EMNIST and the digits: four convolutions, a dense layer, the classifier."""

    num_sites = 6

    def __init__(self, draw: Draw, width: int, classes: int, channels: int = COLOURS):
        self.draw, self.width, self.classes, self.channels = draw, width, classes, channels
        self.widths = (width, 2 * width, 4 * width, 4 * width)

    def parts(self) -> list[keras.Sequential]:
        blocks, before = [], self.channels
        for number, (width, rate) in enumerate(zip(self.widths, DROPOUT, strict=True)):
            make = Parts(self.draw, f"part{number}")
            drop = layers.SpatialDropout2D(rate, seed=self.draw(f"drop{number}"))
            blocks.append(make.part(make.conv(before, width, 5, 2, 2), drop, layers.ReLU()))
            before = width
        make, hidden = Parts(self.draw, "part4"), 8 * self.width
        drop = layers.Dropout(0.5, seed=self.draw("drop4"))
        blocks.append(make.part(layers.Flatten(), make.dense(4 * before, hidden), drop, layers.ReLU()))
        make = Parts(self.draw, "part5")
        return [*blocks, make.part(make.dense(hidden, self.classes))]

    def module(self, site: int, name: str) -> keras.Sequential:
        make, width = Parts(self.draw, name), self.width

        def drop(rate: float, kind: Any = layers.SpatialDropout2D) -> Sequence[layers.Layer]:
            return kind(rate, seed=self.draw(make._named())), layers.ReLU()

        if site == 0:
            convs = make.conv(3, width, 5, 2, 2), make.conv(width, width, 5, 2, 2)
            back = make.transposed(width, 5, 2, 2, 1), make.transposed(3, 5, 2, 2, 1)
            return make.part(
                convs[0], *drop(0.1), convs[1], *drop(0.3), back[0], *drop(0.3), back[1],
                layers.Activation("tanh"),
            )  # fmt: skip
        if site == 5:
            pairs = [(make.dense(8 * width, 8 * width), *drop(0.5, layers.Dropout)) for _ in range(2)]
        else:
            own, rate = self.widths[site - 1], (0.3, 0.3, 0.5, 0.5)[site - 1]
            pairs = [(make.conv(own, own, 5, 1, 2), *drop(rate)) for _ in range(2)]
        return make.part(*pairs[0], *pairs[1])

    def autoencoder(self, name: str) -> keras.Sequential:
        """Return a network from images to images: three convolutions, and three transposed ones."""
        make, widths = Parts(self.draw, name), (COLOURS, *self.widths[:3])
        stack: list[layers.Layer] = []
        for before, width, rate in zip(widths, widths[1:], DROPOUT, strict=False):
            stack += self._with_dropout(make, make.conv(before, width, 5, 2, 2), rate)
        for width, more, rate in ((widths[2], 0, 0.5), (widths[1], 1, 0.3)):
            stack += self._with_dropout(make, make.transposed(width, 5, 2, 2, more), rate)
        last = make.transposed(COLOURS, 5, 2, 2, 1)
        return make.part(*stack, last, layers.Activation("tanh"))  # images are in [-1, 1]

    def _with_dropout(self, make: Parts, conv: layers.Layer, rate: float) -> list[layers.Layer]:
        return [conv, layers.SpatialDropout2D(rate, seed=self.draw(make._named())), layers.ReLU()]


class ResNet18:
    """Torchvision's network without its max-pooling, for images of 32 x 32."""

    num_sites = 10

    def __init__(self, draw: Draw, width: int, classes: int, channels: int = COLOURS):
        self.draw, self.classes = draw, classes  # `channels` follow from the first call
        self.widths = [width * factor for factor in (1, 1, 1, 1, 2, 2, 4, 4, 8, 8)]  # before part s

    def parts(self) -> list[keras.Sequential]:
        make, widths = Parts(self.draw, "part0"), self.widths
        blocks = [make.part(make.plain_conv(widths[0], 7, 2, 3), make.norm(), layers.ReLU())]
        for number in range(1, 9):
            make, after = Parts(self.draw, f"part{number}"), self.widths[min(number + 1, 9)]
            stride = 2 if after != widths[number] else 1
            block = BasicBlock(make, widths[number], after, stride)
            blocks.append(make.part(block, *([layers.GlobalAveragePooling2D()] if number == 8 else [])))
        make = Parts(self.draw, "part9")
        return [*blocks, make.part(make.dense(widths[9], self.classes))]

    def module(self, site: int, name: str) -> keras.Sequential:
        make, width = Parts(self.draw, name), self.widths[site]
        if site == 0:
            return self._of_images(make, 1)
        if site == 9:
            pairs = [(make.dense(width, width), make.norm(), layers.ReLU()) for _ in range(2)]
            return make.part(*pairs[0], *pairs[1])
        return make.part(BasicBlock(make, width, width))

    def autoencoder(self, name: str) -> keras.Sequential:
        """Return a network from images to images: five convolutions, and five transposed ones."""
        return self._of_images(Parts(self.draw, name), 3)

    def _of_images(self, make: Parts, depth: int) -> keras.Sequential:
        """Return a network from images to images, with `depth` convolutions at its smallest size."""
        width, half, stack = self.widths[0], max(1, self.widths[0] // 2), list[layers.Layer]()
        convs = [(COLOURS, half, 3, 1, 2), (half, width, 3, 2, 2), *[(width, width, 3, 1, 2)] * depth]
        for sizes in convs:
            stack += [make.conv(*sizes), make.norm(), layers.ReLU()]
        for filters, stride in (*[(width, 1)] * depth, (half, 2)):
            stack += [make.transposed(filters, 3, stride, 2, stride - 1), make.norm(), layers.ReLU()]
        return make.part(*stack, make.transposed(COLOURS, 3, 1, 2, 0))


class SummedLosses(keras.Model):
    """A model with a loss for several outputs. Keras would make a metric of each while it traces the first
    step, and trace the step again."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Return the sum of all losses."""
        return sum(loss(y[name], y_pred[name]) for name, loss in self.loss.items()) + sum(self.losses)


@register_architecture("corruptions")
class CorruptionsNetwork(SummedLosses, ModularModel):
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
        if site is not None and router.num_modules == 1:
            raise ValueError(
                f"site={site!r} has no meaning for variant={self.variant!r}, which routes nothing. Leave it "
                "out; trainer.sites fixes the sites of modular."
            )
        self.site = self._check_site(self.network.num_sites - 2 if site is None else site)
        self.modules: list[layers.Layer] = []
        if router.num_modules > 1:
            self._make_routed(router)

    def _make_routed(self, router: Any) -> None:
        if router.is_told:
            raise ValueError(
                f"variant={self.variant!r} routes by the rule, but this network does not receive the "
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
