"""The modules of VQA-MNIST: encoders, Finds, Residuals and classifiers, each as M modules of one shape."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.experiments.questions.library import (
    ANSWERS,
    CLASSIFIER,
    ENCODER,
    FIND,
    HIDDEN,
    LAST,
    RESIDUAL,
    encoder_layers,
)
from modtf.models.initial import InitialWeights
from modtf.models.kernels.normalisation import can_fuse, fused_normalisation
from modtf.models.layers import weight_of

EPSILON, MOMENTUM = 1e-5, 0.1  # of batch normalisation, in PyTorch's convention
#: how the names of weights end that "mixed_bfloat16" does not round: a rounded average soon stops moving
PRECISE = ("_scale", "_shift", "_mean", "_variance", "last_kernel", "last_bias")


class Modules(keras.layers.Layer):
    """M modules of one shape and width e. Their weights share one leading axis, so a model has few variables.

    Args:
        bn: whether batch normalisation follows the convolutions and all dense layers except the last. These
            layers then have no biases.
        second: whether a single input takes the second place, and the first is 0.
    """

    def __init__(
        self,
        initial: InitialWeights,
        num_modules: int,
        width: int,
        name: str,
        *,
        bn: bool = False,
        second: bool = False,
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.second = second
        self.initial, self.num_modules, self.width, self.bn = initial, num_modules, width, bn
        self.parts: dict[str, Any] = {}
        self.make()
        self.built = True

    def make(self) -> None:
        """Create the weights."""
        raise NotImplementedError

    def module(self, w: Mapping[str, Any], *inputs: Any) -> Any:
        """Return one module, given its weights by name."""
        raise NotImplementedError

    def linear(self, name: str, shape: Sequence[int], normalised: bool = False) -> None:
        """Create a kernel, and a bias or the weights of a normalisation."""
        drawn = {"kernel": shape} if normalised else {"kernel": shape, "bias": shape[-1:]}
        for part, of in drawn.items():
            whose, fan_in = f"{self.name}_{name}_{part}", int(np.prod(shape[:-1]))
            values = self.initial.uniform(whose, [self.num_modules, *of], fan_in)[0]
            self._part(f"{name}_{part}", values)
        if not normalised:
            return
        for part, value in (("scale", 1.0), ("shift", 0.0), ("mean", 0.0), ("variance", 1.0)):
            values = np.full([self.num_modules, shape[-1]], value, np.float32)
            self._part(f"{name}_{part}", values, trainable=part in ("scale", "shift"))

    def _part(self, name: str, values: np.ndarray, **how: Any) -> None:
        self.parts[name] = weight_of(self, values, name, autocast=not name.endswith(PRECISE), **how)

    def _dtype_of(self, name: str) -> str:
        return self.variable_dtype if name.endswith(PRECISE) else self.compute_dtype

    @property
    def normalises(self) -> bool:
        """Return whether a module's answer depends on the other examples in its batch."""
        return any(name.endswith("_mean") for name in self.parts)

    def functions(
        self, training: bool, counted: bool = False
    ) -> tuple[list[Callable[..., Any]], Callable[[], None]]:
        """Return the M modules, and a function to call after them that updates the moving averages.

        In training each batch is normalised by its own statistics. If `counted`, modules take a last
        argument:
        1 for the examples that count in the statistics, 0 for the others.
        """
        weights = {name: ops.unstack(ops.cast(v, self._dtype_of(name))) for name, v in self.parts.items()}
        of_module: list[dict[str, Any]] = [
            {name: values[m] for name, values in weights.items()} for m in range(self.num_modules)
        ]
        for w in of_module:
            w["training"], w["seen"], w["second"] = training, {}, self.second

        def keep() -> None:
            for name in of_module[0]["seen"]:
                self.parts[name].assign(ops.stack([w["seen"].get(name, w[name]) for w in of_module]))

        def counting(w: dict[str, Any], *inputs: Any) -> Any:
            w["counted"] = inputs[-1]
            return self.module(w, *inputs[:-1])

        return [partial(counting if counted else self.module, w) for w in of_module], keep

    def normalise(self, x: Any, w: dict[str, Any], name: str) -> Any:
        """Apply the bias, or batch normalisation over all axes except the last; then ReLU."""
        if f"{name}_bias" in w:
            return ops.relu(x + w[f"{name}_bias"])
        mean, variance = w[f"{name}_mean"], w[f"{name}_variance"]
        dtype, x = x.dtype, ops.cast(x, mean.dtype)
        if w["training"] and w.get("counted") is None and can_fuse(x):
            affine = w[f"{name}_scale"], w[f"{name}_shift"]
            x, *now = fused_normalisation(x, *affine, EPSILON)
            for part, old, new in zip(("mean", "variance"), (mean, variance), now, strict=True):
                w["seen"][f"{name}_{part}"] = ops.stop_gradient(old + MOMENTUM * (new - old))
            return ops.cast(ops.relu(x), dtype)
        if w["training"]:
            axes, weight = list(range(len(x.shape) - 1)), 1.0
            if w.get("counted") is not None:
                weight = ops.cast(ops.reshape(w["counted"], [-1, *[1] * (len(x.shape) - 1)]), x.dtype)
            count = ops.sum(ops.ones_like(x[..., :1]) * weight)
            some = ops.maximum(count, 1.0)
            now = ops.sum(x * weight, axis=axes) / some
            spread = ops.sum(ops.square(x - now) * weight, axis=axes) / some
            unbiased = spread * some / ops.maximum(count - 1.0, 1.0)
            for part, old, new in (("mean", mean, now), ("variance", variance, unbiased)):
                kept = ops.where(count > 0, old + MOMENTUM * (new - old), old)
                w["seen"][f"{name}_{part}"] = ops.stop_gradient(kept)
            mean, variance = now, spread
        scale = w[f"{name}_scale"] * ops.rsqrt(variance + EPSILON)
        return ops.cast(ops.relu((x - mean) * scale + w[f"{name}_shift"]), dtype)


def conv(x: Any, kernel: Any) -> Any:
    return ops.conv(x, kernel, padding="same")


class Encoders(Modules):
    """Six 3 x 3 convolutions, with 2 x 2 max pooling after the second and the fourth."""

    def make(self):
        for inner, _, number in encoder_layers(self.width):
            self.linear(f"conv{number}", [3, 3, inner, self.width], self.bn)

    def module(self, w, images):
        """[B, rows, columns, 3] -> [B, rows / 4, columns / 4, e]."""
        x = images
        for _, _, number in encoder_layers(self.width):
            x = self.normalise(conv(x, w[f"conv{number}_kernel"]), w, f"conv{number}")
            if number in (1, 3):
                x = ops.max_pool(x, 2, 2)
        return x


class Finds(Modules):
    """h = relu(W2 * (g relu(W1 [x; y] + b1)) + b2), where the sub-task sets the scale g."""

    def make(self):
        self.linear("projection", [2 * self.width, self.width])
        self.linear("conv", [3, 3, self.width, self.width])

    def module(self, w, scale, x, y=None):
        return relu_of(w, "conv", scale[:, None, None] * ops.relu(project(w, x, y)))


class Residuals(Modules):
    """t = relu(P [x; y] + p), h = relu(t + W2 * relu(W1 * t + b1) + b2)."""

    def make(self):
        self.linear("projection", [2 * self.width, self.width])
        self.linear("conv1", [3, 3, self.width, self.width])
        self.linear("conv2", [3, 3, self.width, self.width])

    def module(self, w, x, y=None):
        first = ops.relu(project(w, x, y))
        return relu_of(w, "conv2", relu_of(w, "conv1", first), first)


class Classifiers(Modules):
    """A 1 x 1 convolution, the maximum over positions, and two dense layers."""

    def make(self):
        e = self.width
        self.linear("first", [e, HIDDEN * e], self.bn)
        self.linear("second", [HIDDEN * e, LAST * e], self.bn)
        self.linear("last", [LAST * e, ANSWERS])

    def module(self, w, x):
        """[B, rows, columns, e] -> [B, 2]."""
        x = ops.max(self.normalise(ops.matmul(x, w["first_kernel"]), w, "first"), axis=(1, 2))
        x = self.normalise(ops.matmul(x, w["second_kernel"]), w, "second")
        return ops.matmul(ops.cast(x, w["last_bias"].dtype), w["last_kernel"]) + w["last_bias"]


def relu_of(w: Mapping[str, Any], name: str, x: Any, more: Any = 0.0) -> Any:
    return ops.relu(conv(x, w[f"{name}_kernel"]) + w[f"{name}_bias"] + more)


def project(w: Mapping[str, Any], x: Any, y: Any = None) -> Any:
    """Return W [x; y] + b. With a single input the products with 0 are left out."""
    kernel, width = w["projection_kernel"], x.shape[-1]
    if y is not None:
        x = ops.concatenate([x, y], axis=-1)
    else:
        kernel = kernel[width:] if w["second"] else kernel[:width]
    return ops.matmul(x, kernel) + w["projection_bias"]


KINDS: dict[str, type[Modules]] = {
    ENCODER: Encoders,
    FIND: Finds,
    RESIDUAL: Residuals,
    CLASSIFIER: Classifiers,
}
