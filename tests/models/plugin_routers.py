"""Routers as users write them, with features that the four published routers do not have."""

from keras import ops

from modtf.models import Dense, Router


class Even(Router):
    """Softmax of the scores, with a penalty on uneven use of the modules."""

    needs_scores = True
    penalty_name = "unevenness"

    def __init__(self, setup, *, modules=None, strength=0.5, temperature=1.0):
        super().__init__(setup, modules=modules)
        if not temperature > 0:
            raise ValueError(f"temperature={temperature!r} must be above 0.")
        self.strength, self.temperature = strength, temperature

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.softmax(scores / self.temperature, axis=1)

    def penalty(self, activation):
        usage = ops.mean(activation, axis=2)
        return self.strength * ops.sum(ops.square(usage - 1 / self.num_modules), axis=1)


class Prior(Router):
    """The scores plus a preference for the rule's module. A recurrence needs both at each step."""

    needs_scores = True

    def __init__(self, setup, *, modules=None, preference=1.0):
        super().__init__(setup, modules=modules)
        self.preference = preference

    def call(self, rule=None, rule_features=None, scores=None):
        spread = ops.eye(self.num_modules, self.num_rules, dtype=scores.dtype)
        return ops.softmax(scores + self.preference * ops.matmul(spread, rule), axis=1)


class Learned(Router):
    """Scores multiplied by the router's own weights, also in a recurrence."""

    needs_scores = True

    def __init__(self, setup, *, modules=None):
        super().__init__(setup, modules=modules)
        self.mixing = Dense(setup.initial, self.num_modules, self.num_modules, "mixing", dtype=setup.dtype)

    def call(self, rule=None, rule_features=None, scores=None):
        return ops.softmax(scores + self.mixing(scores), axis=1)


class Frugal(Router):
    """A function of the rule without weights; its entropy penalty cannot be lowered."""

    depends_only_on_rule = True
    penalty_name = "entropy"

    def call(self, rule=None, rule_features=None, scores=None):
        spread = ops.eye(self.num_modules, self.num_rules, dtype=rule.dtype)
        return ops.softmax(ops.matmul(spread, rule), axis=1)

    def penalty(self, activation):
        return -ops.mean(ops.sum(activation * ops.log(activation), axis=1), axis=1)


PLUGINS = {"plugin_even": Even, "plugin_prior": Prior, "plugin_learned": Learned, "plugin_frugal": Frugal}
