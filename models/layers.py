"""Layers with weights that have a leading members axis. Tensors are [P, F, T] (see `models`)."""

import math
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.models.initial import InitialWeights
from modtf.models.kernels.sums import weigh


def flat(x):
    """Merge the tokens of all examples into one axis, [P, F, N, B] -> [P, F, N * B]."""
    return ops.reshape(x, [*ops.shape(x)[:2], -1])


def product_flops(weights: Iterable[keras.Variable]) -> int:
    """Return the operations of multiplying one token by one member's part of these weights [P, ...]."""
    return sum(2 * math.prod(weight.shape[1:]) for weight in weights)


def weight_of(layer: keras.layers.Layer, values: np.ndarray, name: str, **how: Any) -> Any:
    """Return a new weight of a layer with these initial values."""

    def initial(_: Any, dtype: Any) -> Any:
        return ops.convert_to_tensor(values, dtype)

    return layer.add_weight(shape=values.shape, initializer=initial, name=name, **how)


class MemberLayer(keras.layers.Layer):
    """A layer with one set of weights per member. Its name is unique in the model and keys its random
    numbers."""

    def __init__(self, initial: InitialWeights, name: str, dtype: Any = None):
        super().__init__(name=name, dtype=dtype)
        self._initial = initial
        self.num_members = len(initial.members)
        self.built = True  # every shape is known, so weights exist from the start

    def uniform(self, name: str, shape: list[int], fan_in: int) -> keras.Variable:
        """Return a new weight [P, *shape], uniform in +-1/sqrt(fan_in)."""
        return weight_of(self, self._initial.uniform(f"{self.name}/{name}", shape, fan_in), name)


class Dense(MemberLayer):
    """W x + b: [P, inputs, T] -> [P, outputs, T].

    With `groups` G it is G separate layers of these sizes: [P, G, inputs, T] -> [P, G, outputs, T].
    Initial weights are uniform in +-1/sqrt(fan_in); `fan_in` is the number of inputs by default.
    """

    def __init__(
        self,
        initial: InitialWeights,
        inputs: int,
        outputs: int,
        name: str,
        *,
        use_bias: bool = True,
        groups: int | None = None,
        fan_in: int | None = None,
        dtype: Any = None,
    ):
        super().__init__(initial, name, dtype)
        outer, fan_in = [] if groups is None else [groups], fan_in or inputs
        self.kernel = self.uniform("kernel", [*outer, outputs, inputs], fan_in)
        self.bias: Any = self.uniform("bias", [*outer, outputs, 1], fan_in) if use_bias else None

    def call(self, x):
        y = ops.matmul(self.kernel, x)
        return y if self.bias is None else y + self.bias


class TwoLayer(keras.layers.Layer):
    """Dense, ReLU, dense: [P, inputs, T] -> [P, outputs, T]. A decoder's `last_dtype` is the model's
    `variable_dtype`, so its outputs are never rounded to a lower precision."""

    def __init__(
        self,
        initial: InitialWeights,
        inputs: int,
        hidden: int,
        outputs: int,
        name: str,
        *,
        use_bias: bool = True,
        dtype: Any = None,
        last_dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.first = Dense(initial, inputs, hidden, f"{name}_first", use_bias=use_bias, dtype=dtype)
        self.second = Dense(
            initial, hidden, outputs, f"{name}_second", use_bias=use_bias, dtype=last_dtype or dtype
        )
        self.built = True

    def call(self, x):
        return self.second(ops.relu(self.first(x)))


class Mixture(MemberLayer):
    """The last layer of M modules and their mixture, sum_m p_m (W_m h_m + b_m), as two products.

    The modules' answers [P, M, outputs, T] are never in memory:
    sum_m p_m (W_m h_m + b_m) = [W_1 .. W_M] (p_1 h_1, .., p_M h_M) + [b_1 .. b_M] p.

    Args:
        num_modules: M; one module is a plain dense layer.
        hidden: the width of each h_m.
        outputs: the width of the mixture.
        with_scores: whether every module also has a score output, w_m . h_m + b.
    """

    def __init__(
        self,
        initial: InitialWeights,
        num_modules: int,
        hidden: int,
        outputs: int,
        name: str,
        *,
        with_scores: bool = False,
        dtype: Any = None,
    ):
        super().__init__(initial, name, dtype)
        self.num_modules, self.hidden = num_modules, hidden
        self.kernel = self.uniform("kernel", [outputs, num_modules * hidden], hidden)
        self.bias = self.uniform("bias", [outputs, num_modules], hidden)
        if with_scores:
            self.score_kernel = self.uniform("score_kernel", [num_modules, hidden, 1], hidden)
            self.score_bias = self.uniform("score_bias", [num_modules, 1], hidden)

    def scores(self, h):
        """Map h [P, M * hidden, T] to each module's score of itself [P, M, T]."""
        kernel = ops.transpose(self.score_kernel, [0, 1, 3, 2])
        by_module = ops.reshape(h, [self.num_members, self.num_modules, self.hidden, -1])
        return ops.matmul(kernel, by_module)[:, :, 0] + self.score_bias

    def call(self, h, activation):
        """Map h [P, M * hidden, T] and p [P, M, T] to [P, outputs, T]."""
        if self.num_modules == 1:
            return ops.matmul(self.kernel, h) + self.bias
        each = [self.num_members * self.num_modules, -1, ops.shape(h)[2]]
        weighted = weigh(ops.reshape(h, each), ops.reshape(activation, [each[0], each[2]]))
        weighted = ops.reshape(weighted, ops.shape(h))
        return ops.matmul(self.kernel, weighted) + ops.matmul(self.bias, activation)
