"""What all architectures share: a model of a population, with a router."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from modtf.models import boundary
from modtf.models.initial import InitialWeights
from modtf.models.layers import Mixture, product_flops
from modtf.models.options import check_options, options_of
from modtf.models.routers.base import Router, RouterSetup
from modtf.models.routers.make import make_router
from modtf.population import Population
from modtf.task import Task


class ModularModel(keras.Model):
    """A model of a task, or of a population of tasks; `modtf.build` makes one.

    An architecture is a subclass that writes `make_layers` and `forward`; every router, populations, saving,
    training and evaluation then work. It speaks feature-major: P members, F numbers of a token, R rules,
    M modules, N tokens of each of B examples, T = N x B.

        from modtf.models import Dense, Mixture, ModularModel, flat

        @modtf.register_architecture("plain")
        class Plain(ModularModel):
            def make_layers(self, hidden=32):  # its options, with defaults
                self.router = self.make_router(self.num_rules)
                M, F = self.num_modules, self.token_width + self.num_rules
                shared = {"dtype": self.dtype_policy}
                self.first = Dense(self.initial, F, M * hidden, "first", **shared)
                self.last = Mixture(
                    self.initial, M, hidden, self.target_width or 1, "last",
                    with_scores=self.router.needs_scores, **shared,
                )

            def forward(self, inputs, rule):
                rule = flat(rule)
                h = ops.relu(self.first(ops.concatenate([flat(inputs), rule], axis=1)))
                p = self.route(rule, rule, lambda: self.last.scores(h))
                return self.last(h, p), p

    What it can read: `width` e, `num_members` P, `num_rules`, `num_modules` (once `router` is set),
    `token_width` F, `target_width` (None for a plain number), `is_sequence`, `tasks`, `population`, and
    `initial`, which every layer with weights takes.

    Args:
        population: the P members (a dict, when read back from a file).
        variant: a name of `ROUTERS`.
        width: e.
        router: the router's options.
        dtype: "float32", "float64" or a Keras dtype policy. Under "mixed_bfloat16" products are computed in
            bfloat16; weights, routers, attention's sums, recurrent states, the last layer, and so the loss,
            its gradient's means and what the optimizer keeps stay in float32.
        **options: the architecture's.

    Call arguments:
        features: `{"inputs": [B, P, (N,) F], "rule": int [B, P, (N,)]}`; no P axis unless
            `population.has_axis`.

    Returns:
        `{"target": [B, P, (N,)], "activation": [B, P, (N,) M]}`; the target is a logit for classification.
        And `"scores"` as `"activation"`, if the router puts a price on them.
    """

    router: Router

    def __init__(
        self,
        population: Population | Mapping[str, Any],
        variant: str,
        width: int,
        *,
        router: Mapping[str, Any] | None = None,
        dtype: Any = None,
        name: str | None = None,
        **options: Any,
    ):
        super().__init__(name=name or variant, dtype=dtype)
        if not isinstance(population, Population):
            tasks = tuple(Task(**task) for task in population["tasks"])
            population = Population(tasks, tuple(population["seeds"]), population["has_axis"])
        self.population, self.variant, self.width = population, variant, width
        self.tasks, self.seeds = population.tasks, population.seeds
        self.router_options, self.options = dict(router or {}), options
        task = population.task
        self.num_members, self.num_rules = len(population), task.num_rules
        self.is_sequence, self.token_width = task.is_sequence, task.token_width
        self.target_width = task.target_width
        self.initial = InitialWeights(population)
        check_options(
            f"the architecture {type(self).__name__}", options, options_of(type(self), "make_layers")
        )
        self.make_layers(**options)
        if not isinstance(getattr(self, "router", None), Router):
            raise ValueError(
                f"{type(self).__name__}.make_layers must set self.router = self.make_router(...)."
            )
        self.built = True

    # What an architecture writes.

    def make_layers(self, *args: Any, **options: Any) -> None:
        """Creates the layers, `self.router` among them; its keyword arguments are the `options`."""
        raise NotImplementedError

    def forward(self, inputs, rule):
        """Inputs [P, F, N, B] and one-hot rules [P, R, N, B] -> outputs [P, O, T] and p [P, M, T], where O is
        `target_width` or 1; and, if it has them, the scores of `route_with_scores`, for routers that put a
        price on them."""
        raise NotImplementedError

    # What it uses.

    def make_router(
        self, rule_width: int, hidden: Callable[[int], int] | None = None, use_bias: bool = True
    ) -> Router:
        """The router of this model's variant.

        Args:
            rule_width: of the features of the rule that `route` will get.
            hidden, use_bias: see `RouterSetup`.
        """
        setup = RouterSetup(self.initial, self.num_rules, rule_width, hidden, use_bias, self.variable_dtype)
        return make_router(self.variant, setup, self.router_options)

    def route(self, rule, rule_features, scores: Callable[[], Any] | None = None):
        """Asks the router for p [P, M, T].

        Args:
            rule: one-hot, [P, R, T].
            rule_features: what the model makes of it; the rule itself where it makes nothing.
            scores: gives what every module scores itself with, [P, M, T]; called if the router needs it.
        """
        return self.route_with_scores(rule, rule_features, scores)[0]

    def route_with_scores(self, rule, rule_features, scores: Callable[[], Any] | None = None):
        """As `route`; p and the scores, None if the router does not need them."""
        own = scores() if scores is not None and self.router.needs_scores else None
        return self.router.route(rule, rule_features, own), own

    @property
    def num_modules(self) -> int:
        """M."""
        return self.router.num_modules

    # What Keras and users call.

    def call(self, features, training=None):
        inputs, rule = boundary.read(features, self.population, self.compute_dtype)
        with self.router.during(bool(training)):
            outputs, activation, *scores = self.forward(inputs, rule)
        priced = self._priced(*scores)
        if self.router.penalty_name is not None:
            # the mean over members, as of the loss: the optimizer undoes the division of both; and in the
            # dtype in which Keras adds losses up, whatever the model's own
            penalty = ops.mean(self.router.penalise(activation, *priced))
            self.add_loss(ops.cast(penalty, keras.config.floatx()))
        if training:
            self.router.advance(ops.stop_gradient(activation))
        by_token = ops.shape(inputs)[2:]
        target = boundary.write(outputs, self.population, [self.target_width or 1, *by_token])
        by_module = {"activation": activation, **dict(zip(["scores"], priced, strict=False))}
        return {
            "target": target if self.target_width else target[..., 0],
            **{
                name: boundary.write(value, self.population, [self.num_modules, *by_token])
                for name, value in by_module.items()
            },
        }

    def _priced(self, scores=None):
        """The scores, in a list, where the router puts a price on them."""
        if not self.router.penalises_scores:
            return []
        if scores is None:
            raise ValueError(
                f"{type(self).__name__}.forward returns (outputs, p), but variant={self.variant!r} puts a "
                "price on scores: return (outputs, p, scores), p and scores from self.route_with_scores(...)."
            )
        return [scores]

    def build(self, input_shape=None):
        """Nothing is left to build: every shape is known from the task."""

    def some_members(self, first: int, last: int) -> "ModularModel":
        """A population of members first ... last - 1, with their initial weights."""
        config = self.get_config()
        some = {name: config["population"][name][first:last] for name in ("tasks", "seeds")}
        return type(self)(**{**config, "population": {**config["population"], **some}})

    def become(self, other: "ModularModel") -> None:
        """Takes over the members of a model of the same shape, and their weights; what was compiled stays."""
        for ours, its in zip(self.variables, other.variables, strict=True):
            ours.assign(its)
        self.population, self.initial = other.population, other.initial
        self.tasks, self.seeds = other.tasks, other.seeds

    def get_config(self) -> dict[str, Any]:
        members = {"tasks": [task.to_dict() for task in self.tasks], "seeds": list(self.seeds)}
        return {
            "population": {**members, "has_axis": self.population.has_axis},
            "variant": self.variant,
            "width": self.width,
            "router": dict(self.router_options),
            "dtype": self.dtype_policy.name,
            "name": self.name,
            **self.options,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "ModularModel":
        return cls(**config)

    @property
    def num_parameters(self) -> int:
        """Trainable numbers of one member."""
        return sum(math.prod(variable.shape) for variable in self.trainable_variables) // self.num_members

    def forward_flops(self, num_tokens: int | None = None) -> int:
        """Floating-point operations of the products of one member's forward pass on one example.

        A multiplication and an addition per weight and token. Biases that are only added, and elementwise
        functions, are not counted. An architecture that uses weights twice, or multiplies activations, adds
        that to `super().forward_flops(num_tokens)`.

        Args:
            num_tokens: N, that of training by default.
        """
        num_tokens = num_tokens or self.population.family.num_training_tokens
        kernels = [variable for variable in self.trainable_variables if variable.name.endswith("kernel")]
        mixtures = [layer for layer in self.layers if isinstance(layer, Mixture) and layer.num_modules > 1]
        return num_tokens * product_flops(kernels + [mixture.bias for mixture in mixtures])
