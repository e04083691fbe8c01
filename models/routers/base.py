"""What every router provides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from modtf.models.initial import InitialWeights


@dataclass(frozen=True)
class RouterInput:
    """What an architecture offers a router that learns from the rule."""

    width: int  # of `rule_features`
    hidden: int | None  # hidden units of the router's network; None for a single dense layer
    use_bias: bool = True


class Router(keras.layers.Layer):
    """Gives the activation probabilities p [P, M, T], which sum to 1 over the M modules.

    Args:
        initial: draws initial weights.
        num_rules: R.
        offered: sizes of what the architecture offers.
    """

    needs_scores = False  # whether modules must score themselves
    sees_only_rule = True  # whether p is a function of the rule alone
    #: p [P, M, T] and its gradient -> that of the scores; a router that needs scores, has no weights and
    #: writes it out trains faster in a recurrence
    scores_gradient: Callable[[Any, Any], Any] | None = None

    def __init__(self, initial: InitialWeights, num_rules: int, offered: RouterInput, dtype: Any = None):
        super().__init__(name="router", dtype=dtype)
        self.num_rules = num_rules
        self.built = True

    @staticmethod
    def num_modules(num_rules: int) -> int:
        """M, as many modules as rules unless a router says otherwise."""
        return num_rules

    def call(self, rule=None, rule_features=None, scores=None):
        """One-hot rules [P, R, T], rule features [P, F, T], and, where `needs_scores`, scores [P, M, T]
        (then alone) -> p [P, M, T]."""
        raise NotImplementedError
