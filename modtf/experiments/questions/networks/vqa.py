"""The network of VQA-MNIST and SQOOP: an encoder, intermediate modules in a tree of calls, a classifier."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.experiments.questions.family import question_of
from modtf.experiments.questions.library import (
    ANSWERS,
    FIND,
    HIDDEN,
    LAST,
    RESIDUAL,
    ROUTED_ENCODER,
    Bank,
    Library,
    encoder_layers,
)
from modtf.experiments.questions.question import CLASSIFIER, ENCODER, MODULE, PLACES
from modtf.models.architectures import register_architecture
from modtf.models.base import ModularModel
from modtf.models.initial import InitialWeights
from modtf.models.kernels.hard_routing import hard_routing, mixture
from modtf.models.kernels.normalisation import can_fuse, fused_normalisation
from modtf.models.layers import weight_of

EPSILON, MOMENTUM = 1e-5, 0.1  # of batch normalisation, in PyTorch's convention
#: how the names of weights end that "mixed_bfloat16" does not round: a rounded average soon stops moving
PRECISE = ("_scale", "_shift", "_mean", "_variance", "last_kernel", "last_bias")
GIVEN = "gt_modular"  # the router of variants with fixed, rule-based modules


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


@register_architecture("vqa")
class VQANetwork(ModularModel):
    """Modules of a library. At a "routed" layer the variant's router weights as many modules as there are
    groups.

    Args:
        library: the library's name, which sets the degrees at encoder, module and classifier (see `Library`).
    """

    has_members_axis, compiled_by_xla = False, False

    def make_layers(self, library: str = ROUTED_ENCODER):
        task = self.population.task
        self.places = frozenset(task.places)
        scales = np.random.standard_normal([task.num_rules, self.width])  # the same for every library
        self.question = question_of(task)
        self.library = Library.of(library, self.question)
        self.in_turn = self.question.in_turn
        if self.in_turn and task.batches == "free":
            self.in_turn = ()
        self.banks: dict[str, list[tuple[Bank, Modules]]] = {place: [] for place in PLACES}
        for place in PLACES:
            for number, bank in enumerate(self.library.banks(place)):
                modules = self._make_router(place, bank) if bank.routed else bank.num_modules
                layer = self._modules(bank, modules, f"{place}_{number}")
                self.banks[place].append((bank, layer))
                if bank.kind == FIND:
                    self._make_scales(scales, bank)
        if not self.routers and self.population.family.variant(self.variant).router != GIVEN:
            raise ValueError(
                f"The variant {self.variant!r} has a router, but library={library!r} has no routed layer. "
                f"Choose a library with one, such as {ROUTED_ENCODER!r}, or variant={GIVEN!r}."
            )

    def _modules(self, bank: Bank, number: int, name: str) -> Modules:
        how: dict[str, Any] = {"bn": self.library.bn, "second": not self.question.roots}
        layer = KINDS[bank.kind](self.initial, number, self.width, name, dtype=self.dtype_policy, **how)
        setattr(self, name, layer)  # an attribute, so that Keras tracks it
        return layer

    def _make_router(self, place: str, bank: Bank) -> int:
        """Make the router of a layer. Return M, which its options may set."""
        num_rules = len(bank.module_of)
        router = self.make_router(num_rules, place=place, modules=bank.num_modules)
        if router.needs_scores:
            width = 2 if place == CLASSIFIER else self.width
            score = Score(self.initial, router.num_modules, width + num_rules, f"scores_{place}")
            setattr(self, score.name, score)
        return router.num_modules

    def _make_scales(self, drawn: np.ndarray, bank: Bank) -> None:
        """Make the scales g, one for every sub-task of a Find."""
        self.scaled = list(bank.module_of)
        self.scales = weight_of(self, drawn[self.scaled].astype(np.float32), "scales")

    def forward(self, inputs, rule):
        calls, roots = {}, bool(self.question.roots)
        leaves = rule[:, :2] if roots else rule
        images = ops.reshape(inputs, [-1, *self.question.shape[-3:]])
        seen, calls[ENCODER] = self._at(ENCODER, leaves, [images], sharing=self.question.sharing)
        seen, calls[MODULE] = self._at(MODULE, leaves, [seen])
        if roots:
            both = ops.reshape(seen, [-1, 2, *seen.shape[1:]])
            seen, last = self._at(MODULE, rule[:, 2:], [both[:, 0], both[:, 1]], -1)
            calls[MODULE] = tuple(
                None if a is None else ops.concatenate([a, b], axis=1)
                for a, b in zip(calls[MODULE], last, strict=True)
            )
        target, calls[CLASSIFIER] = self._at(CLASSIFIER, rule[:, -1:], [seen])
        outputs = {"target": target}
        for place, (p, scores) in calls.items():
            outputs |= {f"activation_{n}": p for n in (place, f"{place}_groups") if n in self.places}
            if scores is not None:
                outputs[f"scores_{place}"] = scores
        return outputs

    def _at(self, place: str, rule, inputs: Sequence[Any], number: int = 0, sharing: int = 1):
        """Return a layer's answers to the calls [B, N], and (p [B, N, M], scores or None).

        The inputs are [G, ...] with G = B x N. If neighbouring calls share an input, it occurs once, and
        G = B x N / sharing. A module that answers all of them then runs once."""
        bank, layer = self.banks[place][number]
        flat = ops.reshape(rule, [-1])
        if bank.kind == FIND:
            rows = self._table(dict(zip(self.scaled, range(len(self.scaled)), strict=True)))
            inputs = [ops.take(ops.cast(self.scales, inputs[0].dtype), ops.take(rows, flat), axis=0), *inputs]
        counted = layer.normalises and layer.num_modules > 1 and not bank.routed
        modules, keep = layer.functions(self.training_now, counted)
        scores = None
        if bank.routed:
            answers = [ops.repeat(module(*inputs), sharing, axis=0) for module in modules]
            score = self._scores(place, answers, rule, bank)
            p, scores = self.route_with_scores(rule, None, score, place)
            mixed = mixture(answers, ops.reshape(p, [-1, len(modules)]))
        else:
            choice = ops.take(self._table(bank.module_of), flat)
            after = sharing if len(modules) == 1 else 1
            inputs = [ops.repeat(x, sharing // after, axis=0) for x in inputs]
            mixed = hard_routing(modules, inputs, choice, self._in_turn(place, bank, number), counted)
            mixed = ops.repeat(mixed, after, axis=0)
            sizes = [other.num_modules for _, other in self.banks[place]]
            before = sum(sizes[:-1]) if number else 0
            p = ops.reshape(ops.one_hot(choice + before, sum(sizes)), [-1, rule.shape[1], sum(sizes)])
        keep()
        return mixed, (p, scores)

    def _in_turn(self, place: str, bank: Bank, number: int) -> list[int]:
        """Return the modules of the calls of one example of every question, if batches have the questions in
        turn."""
        calls = self.question.calls_at(place)
        seen = calls if len(calls) < 3 else calls[2:] if number else calls[:2]
        return [bank.module_of[rule[call]] for rule in self.in_turn for call in seen]

    def _table(self, of_rule: dict[int, int]):
        """Return integers by the family's rules, 0 for a rule without one."""
        return ops.convert_to_tensor(np.array([of_rule.get(r, 0) for r in range(self.num_rules)], np.int32))

    def _scores(self, place: str, answers: Sequence[Any], rule, bank: Bank) -> Callable[[], Any]:
        """Score every module from its pooled answer and the sub-task. An encoder barely depends on the
        sub-task."""

        def scores():
            rows = self._table(dict(zip(bank.module_of, range(len(bank.module_of)), strict=True)))
            asked = ops.one_hot(ops.take(rows, ops.reshape(rule, [-1])), len(bank.module_of))
            pooled = [ops.mean(a, axis=(1, 2)) if len(a.shape) == 4 else a for a in answers]
            features = ops.stack([ops.concatenate([a, ops.cast(asked, a.dtype)], 1) for a in pooled], 1)
            by_module = getattr(self, f"scores_{place}")(features)
            return ops.reshape(by_module, [-1, rule.shape[1], len(answers)])

        return scores

    def forward_flops(self, num_tokens: int | None = None) -> int:
        """Return two operations per multiplication with a weight, for one example."""
        return 2 * self.library.macs(self.width)


class Score(keras.layers.Layer):
    """M dense layers with one output each: features [G, M, F] -> [G, M]."""

    def __init__(self, initial, num_modules: int, width: int, name: str):
        super().__init__(name=name)
        self.both = weight_of(self, initial.uniform(name, [num_modules, width + 1], width)[0], "both")
        self.built = True

    def call(self, features):
        both = ops.cast(self.both, features.dtype)
        return ops.sum(features * both[:, :-1], axis=-1) + both[:, -1]
