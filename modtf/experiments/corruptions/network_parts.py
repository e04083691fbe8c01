"""The networks for corrupted images, split into parts, and the modules for the sites between them.

A network is a list of parts; site s comes before part s. A module keeps the shape of its input.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import initializers, layers, ops

DROPOUT = (0.1, 0.3, 0.5, 0.5)
COLOURS = 3  # channels of an image

Draw = Callable[[str], int]  # maps the name of a weight to its seed


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
