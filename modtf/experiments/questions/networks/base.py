"""The parts that FiLM, MAC and Vector-NMN share: layers with seeds, the image encoder, the checks."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import initializers, layers, ops

from modtf.models.base import ModularModel
from modtf.models.kernels.normalisation import BatchNormalization
from modtf.tasks.task import random_key

#: the scale and mode of Keras's `VarianceScaling` with uniform numbers
KAIMING, XAVIER, PYTORCH = (2.0, "fan_in"), (1.0, "fan_avg"), (1 / 3, "fan_in")
CONVOLUTIONS, HALVED = 6, (1, 3)  # of the image encoder: the layers, and those that 2 x 2 pooling follows
Initial = Callable[..., Any]  # an initialiser: (shape, dtype) -> numbers
WORDS = [0, 2, 1]  # the calls X, Y, relation in the order of the words


class QuestionNetwork(ModularModel):
    """A network of Keras's own layers for a question of three words about one image. It has no router."""

    has_members_axis, compiled_by_xla = False, False
    make: "Layers"

    def start(self, kernels: tuple[float, str], zero_biases: bool = False) -> "Layers":
        """Return the factory of this network's layers. Raise `ValueError` if the network does not fit."""
        task = self.population.task
        shapes, router = task.example_shapes(), task.family.variant(self.variant).router
        image = shapes["inputs"]
        fits = len(image) == 3 and image[0] == image[1] and image[0] % 4 == 0 and shapes["rule"] == (3,)
        if not (fits and self.target_width):
            raise ValueError(
                f"{type(self).__name__} answers a question of three words about one square image. It does "
                f"not fit {task.name}, with inputs {image} and rules {shapes['rule']}. Choose arch='sqoop'."
            )
        if router not in ("monolithic", "gt_modular") or self.router_options:
            raise ValueError(
                f"variant={self.variant!r}, router={self.router_options!r}: {type(self).__name__} has no "
                "routed layer. Choose variant='monolithic' without options of a router."
            )
        self.side, self.channels = image[0], image[2]
        self.make = Layers(self, kernels, zero_biases)
        return self.make

    def forward_flops(self, num_tokens: int | None = None) -> int:
        """Return two operations per multiplication with a weight, for one example."""
        return 2 * self.make.macs


class Layers:
    """A factory of layers. Initial weights are functions of (task, seed, name).

    It counts multiplications with weights in `macs`; a layer runs `times` times for an example.

    Args:
        kernels: the initial kernels, as KAIMING, XAVIER or PYTORCH.
        zero_biases: whether biases start from 0, otherwise U(+-1/sqrt(fan_in)).
    """

    def __init__(self, model: QuestionNetwork, kernels: tuple[float, str], zero_biases: bool):
        self.task, self.seed = model.population.members[0]
        self.kernels, self.zero_biases, self.side = kernels, zero_biases, model.side
        self.dtype, self.last_dtype, self.macs = model.dtype_policy, model.variable_dtype, 0
        self.answers = model.target_width or 1

    def seed_of(self, name: str) -> int:
        return random_key(self.task, self.seed, "weights", name) % (1 << 31)

    def scaled(self, name: str) -> Initial:
        scale, mode = self.kernels
        return _drawn(initializers.VarianceScaling(scale, mode, "uniform", self.seed_of(name)))

    def uniform(self, name: str, bound: float) -> Initial:
        return _drawn(initializers.RandomUniform(-bound, bound, self.seed_of(name)))

    def normal(self, name: str) -> Initial:
        return _drawn(initializers.RandomNormal(0.0, 1.0, self.seed_of(name)))

    def _initial(self, name: str, fan_in: int) -> dict[str, Any]:
        bias = "zeros" if self.zero_biases else self.uniform(f"{name}_bias", 1 / math.sqrt(fan_in))
        return {"name": name, "kernel_initializer": self.scaled(f"{name}_kernel"), "bias_initializer": bias}

    def dense(self, name: str, inputs: int, units: int, *, times: int = 1, **how: Any) -> layers.Layer:
        self.macs += inputs * units * times
        return layers.Dense(units, **self._initial(name, inputs), **{"dtype": self.dtype, **how})

    def conv(
        self, name: str, inputs: int, filters: int, side: int, *, size: int = 3, times: int = 1, **how: Any
    ) -> layers.Layer:
        fan_in = size * size * inputs
        self.macs += fan_in * filters * side * side * times
        how |= {"padding": "same", "dtype": self.dtype}
        return layers.Conv2D(filters, size, **self._initial(name, fan_in), **how)

    def norm(self, name: str, affine: bool = True) -> layers.Layer:
        how: dict[str, Any] = {"center": affine, "scale": affine, "name": name, "dtype": self.dtype}
        return BatchNormalization(momentum=0.9, epsilon=1e-5, **how)

    def embedding(self, name: str, words: int, width: int, bound: float | None = None) -> layers.Layer:
        """Return an embedding with standard normal numbers, or uniform ones up to a bound."""
        start = self.normal(name) if bound is None else self.uniform(name, bound)
        return layers.Embedding(words, width, start, name=name, dtype=self.dtype)

    def stem(self, name: str, channels: int, width: int, last: int) -> keras.Sequential:
        """Return the image encoder: six 3 x 3 convolutions with batch normalisation, the last one with `last`
        filters. The side becomes a quarter."""
        parts, side = [], self.side
        for number in range(CONVOLUTIONS):
            filters = last if number == CONVOLUTIONS - 1 else width
            conv = self.conv(f"{name}_conv{number}", channels, filters, side, use_bias=False)
            parts += [conv, self.norm(f"{name}_norm{number}"), layers.ReLU(dtype=self.dtype)]
            if number in HALVED:
                parts.append(layers.MaxPooling2D(2, dtype=self.dtype))
                side //= 2
            channels = filters
        return keras.Sequential(parts, name=name)

    def classifier(self, inputs: int, hidden: int, bn: bool = True) -> keras.Sequential:
        """Return a hidden layer, with batch normalisation in place of biases if `bn`, and the answers."""
        first = self.dense("classifier_first", inputs, hidden, use_bias=not bn)
        norms = [self.norm("classifier_norm")] if bn else []
        last = self.dense("classifier_last", hidden, self.answers, dtype=self.last_dtype)
        return keras.Sequential([first, *norms, layers.ReLU(dtype=self.dtype), last], name="classifier")


def _drawn(initializer: initializers.Initializer) -> Initial:
    """Return an initialiser that draws in float32, so that models of all dtypes start alike."""
    return lambda shape, dtype=None: ops.cast(initializer(shape, "float32"), dtype)


def with_coordinates(x: Any) -> Any:
    """Return x [B, rows, columns, C] with two more channels: column and row, each from -1 to 1."""
    rows, columns = (np.linspace(-1, 1, side) for side in x.shape[1:3])
    both = ops.convert_to_tensor(np.stack(np.meshgrid(columns, rows), axis=-1)[None], x.dtype)
    return ops.concatenate([x, ops.zeros_like(x[..., :1]) + both], axis=-1)
