"""The base class of all architectures: a model of a population, with a router."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import keras
from keras import ops

from modtf.base.registry import check_known_options, options_of
from modtf.models.boundary import answer, check_rules
from modtf.models.initial import InitialWeights, blank_examples, reproducible
from modtf.models.layers import Mixture, product_flops
from modtf.models.routed import RoutedModel
from modtf.models.routers.base import shared_loss, whole_batch
from modtf.tasks.population import Population
from modtf.xla.jax_trainer import tell_layers
from modtf.xla.switches import is_traced

EXACT = {"bfloat16": 2**8, "float16": 2**11}  # the largest integer up to which all are exact


@contextlib.contextmanager
def _plain_errors() -> Iterator[None]:
    """Keep Keras from adding text to the errors of a call in the context."""
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()


class ModularModel(RoutedModel):
    """A model of a task, or of a population of tasks. `modtf.build` makes one.

    An architecture is a subclass with the methods `make_layers` and `forward`. Every router, populations,
    saving, training and evaluation then work. Its tensors are feature-major: P members, F numbers per token,
    R rules, M modules, N tokens in each of B examples, T = N x B.

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

    It can read these attributes: `width` e, `num_members` P, `num_rules`, `num_modules` (once `router` is
    set), `token_width` F, `target_width` (the number of classes; None if the target is a plain number),
    `is_sequence`, `tasks`, `population`, and `initial`, which every layer with weights takes.

    With `has_members_axis = False` it can use ordinary Keras layers. `forward(inputs, rule)` then gets inputs
    [B, ...] in the model's own dtype and rules int [B, N] ([B, 1] if examples are not sequences). It returns
    its outputs by name, with "target" [B, ...] among them. `self.route` then takes and returns [B, N, M].

    A model with several routed layers has one router for each, `make_router(..., place=NAME)`, and returns p
    by the layers' names.

    Args:
        population: the P members (a dict when loaded from a file).
        variant: the name of one of the family's variants, or of a router in `ROUTERS`.
        width: e.
        router: the router's options.
        trained_on: the tasks and seeds of its training data, when loaded from a file; None for those above.
        dtype: "float32", "float64" or a Keras dtype policy. Under "mixed_bfloat16" products are computed in
            bfloat16. Weights, routers, attention's sums, recurrent states, the last layer, the loss, the
            means of its gradient and the optimizer's state stay in float32.
        **options: the architecture's options.

    Call arguments:
        features: `{"inputs": [B, P, (N,) F], "rule": int [B, P, (N,)]}`; without the P axis unless
            `population.has_axis`.

    Returns:
        `{"target": [B, P, (N,)], "activation": [B, P, (N,) M]}`. The target is a logit for classification.
        `"scores"` is added, shaped as `"activation"`, if the router penalises them. A routed layer with a
        name has `"activation_NAME"` [B, P, tokens, M].
    """

    #: whether XLA compiles it: as requested (None), or never on a CPU (False): convolutions are slow there
    compiled_by_xla: bool | None = None
    #: whether each token has one rule, 0..R-1; False if features["rule"] stands for several rules in an order
    takes_single_rules: ClassVar[bool] = True

    #: option -> the flag without which it has no effect
    needs: ClassVar[Mapping[str, str]] = {}

    training_now = False  # in `forward`: whether the model trains

    def __init__(
        self,
        population: Population | Mapping[str, Any],
        variant: str,
        width: int,
        *,
        router: Mapping[str, Any] | None = None,
        dtype: Any = None,
        name: str | None = None,
        trained_on: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        super().__init__(name=name or variant, dtype=dtype)
        if not isinstance(population, Population):
            population = Population.from_dict(population)
        self.trained_on = None if trained_on is None else Population.from_dict(trained_on)
        self.population, self.variant, self.width = population, variant, width
        self.tasks, self.seeds = population.tasks, population.seeds
        self.router_options, self.options = dict(router or {}), options
        task = population.task
        self.num_members, self.num_rules = len(population), task.num_rules
        self.is_sequence, self.token_width = task.is_sequence, task.token_width
        self.target_width = task.output_width
        self.initial = InitialWeights(population)
        ids, exact = task.family.num_ids(task), EXACT.get(self.compute_dtype)
        self.takes_ids = ids is not None
        if ids is not None and exact is not None and ids > exact:
            raise ValueError(
                f"dtype={self.dtype_policy.name!r} cannot tell {ids} ids of tokens apart, because "
                f"{self.compute_dtype} holds integers up to {exact} exactly. Choose float32."
            )
        check_known_options(
            f"the architecture {type(self).__name__}", options, options_of(type(self), "make_layers")
        )
        if self.has_members_axis:
            self.make_layers(**options)
        else:
            self._make_of_one(options)
        if not self.routers and self.has_members_axis:
            raise ValueError(
                f"{type(self).__name__}.make_layers must set self.router = self.make_router(...)."
            )
        self.built = True

    def _make_of_one(self, options: Mapping[str, Any]) -> None:
        """Make Keras's own layers, which draw from global generators and make their weights when called."""
        if self.population.has_axis:
            raise ValueError(
                f"The architecture {type(self).__name__} has no members axis, but received "
                f"{self.population.describe()}. Build one model per task, or run a modtf.Cell, which trains "
                "its members one after the other."
            )
        with reproducible(self.tasks[0], self.seeds[0]), _plain_errors():
            self.make_layers(**options)
            self.built = True
            self(blank_examples(self.tasks[0]))

    def expect(self, fits: bool, what: str) -> None:
        """Raise `ValueError` unless the task fits the architecture, which takes `what`."""
        if not fits:
            raise ValueError(
                f"The architecture {type(self).__name__} takes {what}, which the family "
                f"{self.population.task.arch!r} does not have. Choose the family's own architecture."
            )

    # An architecture defines these.

    def make_layers(self, *args: Any, **options: Any) -> None:
        """Create the layers, including `self.router`. The keyword arguments are the `options`."""
        raise NotImplementedError

    def forward(self, inputs, rule):
        """Map inputs [P, F, N, B] and one-hot rules [P, R, N, B] to outputs [P, O, T] and p [P, M, T].

        O is `target_width` or 1. If a router penalises scores, also return those of `route_with_scores`.
        With several routed layers, p and scores are dicts keyed by the layers' names."""
        raise NotImplementedError

    # Keras and users call these.

    def __call__(self, features, *args, **kwargs):
        if not is_traced(features["rule"]):
            self.check_routers()  # here, because Keras wraps errors raised in `call`
            if self.takes_single_rules:
                check_rules(features["rule"], self.num_rules)
        return super().__call__(features, *args, **kwargs)

    def call(self, features, training=None):
        routers = self.routers
        with contextlib.ExitStack() as during:
            for router in routers.values():
                during.enter_context(router.during(bool(training), ops.shape(features["rule"])[0]))
            during.enter_context(tell_layers(self, bool(training)))
            self.training_now = bool(training)
            during.callback(setattr, self, "training_now", False)
            outputs, activation, scores = answer(self, features)
        for place, p in activation.items():
            router, priced = routers[place], self.priced(place, scores)
            if router.penalty_name is not None:
                # The mean over members, as in the loss: the optimizer undoes the division of both. The dtype
                # is the one in which Keras adds losses, whatever the model's own.
                penalty = ops.mean(router.penalise(p, *priced))
                self.add_loss(shared_loss(ops.cast(penalty, keras.config.floatx())))
            if training:  # reading the losses waits for all replicas; by then they have added them
                router.advance(whole_batch(ops.stop_gradient(p)))
        return outputs

    def build(self, input_shape=None):
        """Do nothing: every shape is known from the task, so the weights exist already."""

    def some_members(self, first: int, last: int) -> "ModularModel":
        """Return a population of the members first ... last - 1, with their initial weights."""
        config = self.get_config()
        some = {name: config["population"][name][first:last] for name in ("tasks", "seeds")}
        return type(self)(**{**config, "population": {**config["population"], **some}, "trained_on": None})

    def become(self, other: "ModularModel") -> None:
        """Take over the members and weights of a model of the same shape. Compiled programs stay valid."""
        for variable, source in zip(self.variables, other.variables, strict=True):
            variable.assign(source)
        self.population, self.initial = other.population, other.initial
        self.tasks, self.seeds, self.trained_on = other.tasks, other.seeds, other.trained_on

    def get_config(self) -> dict[str, Any]:
        data = self.trained_on
        return {
            "population": self.population.to_dict(),
            **({} if data in (None, self.population) else {"trained_on": data.to_dict()}),
            "variant": self.variant,
            "width": self.width,
            "router": dict(self.router_options),
            "dtype": self.dtype_policy.name,
            "name": self.name,
            **self.options,
        }

    @property
    def num_parameters(self) -> int:
        """The number of trainable parameters of one member."""
        return sum(math.prod(variable.shape) for variable in self.trainable_variables) // self.num_members

    def forward_flops(self, num_tokens: int | None = None) -> int:
        """Return the floating-point operations of one member's products in a forward pass of one example.

        It counts a multiplication and an addition per weight and token. It does not count added biases or
        elementwise functions. An architecture that uses weights twice, or multiplies activations, adds
        that to `super().forward_flops(num_tokens)`.

        Args:
            num_tokens: N; by default the number of tokens in training.
        """
        num_tokens = num_tokens or self.population.family.num_tokens(self.population.task)
        kernels = [variable for variable in self.trainable_variables if variable.name.endswith("kernel")]
        if not self.has_members_axis:
            return num_tokens * sum(2 * math.prod(kernel.shape) for kernel in kernels)
        mixtures = [layer for layer in self.layers if isinstance(layer, Mixture) and layer.num_modules > 1]
        return num_tokens * product_flops(kernels + [mixture.bias for mixture in mixtures])
