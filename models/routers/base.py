"""The base class of every router."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
import numpy as np
from keras import ops

from modtf.base.checks import check_integer
from modtf.models.initial import InitialWeights
from modtf.models.kernels.gradients import noted
from modtf.models.layers import weight_of
from modtf.xla.switches import replica_context


@dataclass(frozen=True)
class RouterSetup:
    """The values that a model offers its router. `Dense` and `TwoLayer` take `initial` and `dtype`."""

    initial: InitialWeights  # draws the initial weights
    num_rules: int  # R
    width: int  # of `rule_features`
    #: maps the number of modules to the hidden units of the router's network on `rule_features`. None if one
    #: dense layer is enough, because the features are learned already
    hidden: Callable[[int], int] | None = None
    use_bias: bool = True
    dtype: Any = None
    name: str = "router"  # unique in the model; keys the weights' random numbers
    rule_is_hidden: bool = False  # whether `rule_features` of a recurrence are zeros
    token_width: int | None = None  # F of `Router.inputs`; None if inputs belong to whole examples
    num_ids: int | None = None  # the number of ids if inputs are ids of tokens


def whole_batch(values):
    """Return values [P, K, T] of a batch's tokens, from all replicas that share it, with their gradient."""
    replica = replica_context()
    if replica is None:
        return values
    with noted():  # gathering has a gradient of its own
        gathered = replica.all_gather(values, axis=2)
    return ops.reshape(gathered, [*values.shape[:2], -1])  # restores the shape, which gathering loses


def shared_loss(loss):
    """Return the loss that a replica adds to the model's losses.

    All replicas add to one list, and each reads the whole list afterwards. Each has the gradient of its own
    loss only.
    """
    replica = replica_context()
    if replica is None:
        return loss
    return loss - ops.stop_gradient(loss) * (1.0 - 1.0 / replica.num_replicas_in_sync)


class Router(keras.layers.Layer):
    """A router: it computes the activation probabilities p [P, M, T], which sum to 1 over the M modules.

    A subclass defines `call`, and a constructor if it has options: keyword arguments, set by
    `modtf.build(..., router={"strength": 0.5})`. The constructor passes `modules` on if their number is free.
    P counts the members, which never see each other, and T the tokens. In this example modules score
    themselves, and uneven load is penalised.

        @modtf.register_router("even")
        class Even(modtf.models.Router):
            needs_scores = True
            penalty_name = "unevenness"

            def __init__(self, setup, *, modules=None, strength=0.1):
                super().__init__(setup, modules=modules)
                self.strength = strength

            def call(self, rule=None, rule_features=None, scores=None):
                return ops.softmax(scores, axis=1)

            def penalty(self, activation):
                usage = ops.mean(activation, axis=2)
                return self.strength * ops.sum((usage - 1 / self.num_modules) ** 2, axis=1)

    Args:
        setup: the values that the model offers.
        modules: M; R by default.

    Raises:
        ValueError: if `modules` is not an integer of at least 1.
    """

    needs_scores: ClassVar[bool] = False  # whether modules must score themselves
    #: a promise that p is a function of the rule alone. The load under another distribution of the rules then
    #: follows from p, without sampling
    depends_only_on_rule: ClassVar[bool] = False
    penalty_name: ClassVar[str | None] = None  # the name under which `penalty` is reported, if there is one
    #: the values of its options that tuning tries by default: ("strength=0.1:10:log", "k=1,2,4"), see
    #: `modtf.base.space`. Values that the constructor rejects for this number of rules are left out
    tunable: ClassVar[tuple[str, ...]] = ()
    penalises_scores: ClassVar[bool] = False  # whether `penalty` is called with (activation, scores)
    #: whether p of a token depends on other tokens of its batch. A recurrence, which sees one token of every
    #: example at a time, rejects such a router
    sees_batch: ClassVar[bool] = False
    #: whether `extra_input` reads `inputs`, the tokens' inputs [P, F, T] during a forward pass, else None
    needs_inputs: ClassVar[bool] = False
    inputs: Any = None

    def __init__(self, setup: RouterSetup, *, modules: int | None = None):
        super().__init__(name=setup.name, dtype=setup.dtype)
        self.num_members, self.num_rules = len(setup.initial.members), setup.num_rules
        self.rule_width, self._rule_is_hidden = setup.width, setup.rule_is_hidden
        self.num_modules = setup.num_rules if modules is None else check_integer("modules", modules, 1)
        self.kept: list[Any] = []
        self._trains, self._batch_size = False, None
        self._numbered: Any = None  # during a forward pass: the tokens numbered so far
        self.built = True

    def keep(self, name: str, values: Any, dtype: str | None = None) -> Any:
        """Keep a number or an array per member that is not trained, for `extra_input` and `advance`.

        Keep everything that differs between members this way: in training one model represents each in turn.
        The values are saved with the model and in checkpoints, and the best weights have those of their step.
        `call` must not read them; `extra_input` passes them on, once for all tokens.

        Args:
            values: the initial values, [P, ...].
            dtype: the model's own by default.
        """
        how: dict[str, Any] = {"dtype": dtype, "trainable": False, "aggregation": "only_first_replica"}
        self.kept.append(weight_of(self, np.asarray(values), name, **how))
        return self.kept[-1]

    def check_chosen(self, k: Any, among: int | None = None) -> int:
        """Return k, checked against the number of modules among which it chooses, all by default."""
        among = self.num_modules if among is None else among
        if check_integer("k", k, 1) > among:
            raise ValueError(f"k={k} is not valid; expected at most {among}, the number of modules.")
        return int(k)

    @property
    def learns(self) -> bool:
        """Whether the gradient reaches the scores or the router's own weights."""
        return self.needs_scores or bool(self.trainable_variables)

    @property
    def is_told(self) -> bool:
        """Return whether the router gets the rule where the network must not: if p follows the rule, even
        if an instance also samples, and so takes back `depends_only_on_rule`."""
        return type(self).depends_only_on_rule

    # A router defines these.

    def call(self, rule=None, rule_features=None, scores=None):
        """Return p of all tokens, or of one step's tokens in a recurrence whose router needs scores.

        Args:
            rule: one-hot rules [P, R, T].
            rule_features: the architecture's features of the rules, [P, setup.width, T]; the rules themselves
                if it has none.
            scores: the modules' scores of themselves, [P, M, T]; None unless `needs_scores`.

        Returns:
            p [P, M, T], at least 0 and with sum 1 over M.
        """
        raise NotImplementedError

    def extra_input(self, rule, training: bool):
        """Return the argument `extra` of `call`: noise of this training step, a temperature, or a bias.

        A recurrence calls it once for all tokens, before the loop.

        Args:
            rule: one-hot rules [P, R, T].
            training: whether this is a training step, not an evaluation.

        Returns:
            [P, K, T], or [P, K, 1] if it is the same for all tokens, without a gradient; or None.
        """
        return

    def advance(self, activation):
        """Update the kept values, given p [P, M, T] of a training step. Evaluation never calls it."""

    def penalty(self, activation):
        """Return the penalty [P] that is added to each member's loss, from p of a whole batch, [P, M, T].

        With `penalises_scores` it has a second argument, the scores [P, M, T].
        """
        raise NotImplementedError

    # Models and evaluation call these, which check the shapes.

    @contextlib.contextmanager
    def during(self, training: bool, batch_size: Any = None) -> Iterator[None]:
        """Set, while the forward pass is traced, whether it is a training step and the number of its
        examples.

        Under JAX, Keras does not pass this on to layers in `stateless_call`.
        """
        self._trains, self._batch_size, self._numbered = training, batch_size, 0
        try:
            yield
        finally:
            self._trains, self._numbered, self.inputs = False, None, None

    def token_numbers(self, num_tokens: Any):
        """Return the positions of T tokens in their batch, int32 [T]; in the whole batch if replicas share
        it. The order is [N, B]: the first token of every example comes before the second of any. If a forward
        pass routes here more than once, the tokens of a later call have larger numbers."""
        numbers, replica, replicas = ops.arange(num_tokens, dtype="int32"), replica_context(), 1
        if replica is not None:
            own, replicas = ops.cast(self._batch_size, "int32"), replica.num_replicas_in_sync
            first = own * ops.cast(replica.replica_id_in_sync_group, "int32")
            numbers = numbers // own * (own * replicas) + first + numbers % own
        if self._numbered is None:  # outside of a forward pass
            return numbers
        before, self._numbered = self._numbered, self._numbered + num_tokens * replicas
        return before + numbers

    def with_extra(self, rule):
        """Return the rules with `extra_input` below them, [P, R + K, T]: the input of a recurrence."""
        extra = self.extra_of(rule)
        if extra is None:
            return rule
        shape = [*extra.shape[:2], ops.shape(rule)[2]]
        return ops.concatenate([ops.cast(rule, extra.dtype), ops.broadcast_to(extra, shape)], axis=1)

    def route_with_extra(self, rule_and_extra, scores):
        """Return p of one step of a recurrence, given the result of `with_extra` for it."""
        rule, extra = rule_and_extra[:, : self.num_rules], rule_and_extra[:, self.num_rules :]
        features = ops.zeros_like(rule) if self._rule_is_hidden else rule
        return self.route_given(rule, features, scores, extra if extra.shape[1] else None)

    def route(self, rule, rule_features, scores=None):
        """Return the result of `call`. Raise `ValueError` if p does not have the shape [P, M, T]."""
        return self.route_given(rule, rule_features, scores, self.extra_of(rule))

    def extra_of(self, rule):
        precise = None if rule is None else ops.cast(rule, self.compute_dtype)  # never rounded to bfloat16
        extra = self.extra_input(precise, self._trains)
        return None if extra is None else ops.stop_gradient(ops.cast(extra, self.compute_dtype))

    def route_given(self, rule, rule_features, scores, extra):
        extras = {} if extra is None else {"extra": extra}
        p = self(rule=rule, rule_features=rule_features, scores=scores, **extras)
        if len(p.shape) != 3 or p.shape[1] not in (None, self.num_modules):
            raise ValueError(
                f"{type(self).__name__}.call returned p of shape {tuple(p.shape)}; expected [P, M, T] with "
                f"M = {self.num_modules} modules."
            )
        return p

    def precise_penalty(self, *arguments):
        """Return the result of `penalty` for arguments that mixed precision may have rounded."""
        return self.penalty(*(ops.cast(one, self.compute_dtype) for one in arguments))

    def penalise(self, activation, scores=None):
        """Return the result of `penalty`. Raise `ValueError` if it is not one number per member."""
        arguments = [activation, *([scores] if self.penalises_scores else [])]
        penalty = self.precise_penalty(*map(whole_batch, arguments))
        if tuple(penalty.shape) != (self.num_members,):
            raise ValueError(
                f"{type(self).__name__}.penalty returned the shape {tuple(penalty.shape)}; expected "
                f"({self.num_members},), one number per member. Reduce axes 1 and 2 of p [P, M, T], not "
                "axis 0."
            )
        return penalty
