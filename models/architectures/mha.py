"""Modular multi-head attention: a module is two heads, a bypass and a two-layer network on them."""

import math

import keras
from keras import ops

from modtf.models.base import ModularModel
from modtf.models.layers import Dense, Mixture, TwoLayer, softmax
from modtf.models.routers.base import RouterInput
from modtf.models.sizes import mha_head, mha_hidden


def attend(query, key, value):
    """Softmax attention of every token to the others, never to itself.

    Broadcast products and sums with the batch as the innermost axis: heads are too narrow (2 to 128)
    and sequences too short for matrix products, which cost several times more here.

    Args:
        query, key, value: [P, H, k, N, B].

    Returns:
        [P, H, k, N, B].
    """
    width, num_tokens = query.shape[2], query.shape[3]
    scores = ops.sum(query[:, :, :, :, None] * key[:, :, :, None], axis=2)  # [P, H, N, N, B]
    itself = ops.eye(num_tokens, dtype=scores.dtype)[:, :, None]
    weights = softmax(scores / math.sqrt(width) - 1e9 * itself, axis=3)
    return ops.sum(weights[:, :, None] * value[:, :, :, None], axis=4)


@keras.saving.register_keras_serializable("modtf")
class ModularMHA(ModularModel):
    """Encoder, 2R heads shared out to the modules, modules on their heads and bypass, decoder."""

    def make_layers(self) -> None:
        e, rules, modules, shared = self.width, self.num_rules, self.num_modules, {"dtype": self.dtype_policy}
        self.num_heads, self.head_width = 2 * rules, mha_head(e, rules)
        k = self.head_width
        module_inputs = (self.num_heads // modules + 1) * k
        hidden = self.module_hidden = mha_hidden(e, rules, modules)
        self.encoder = TwoLayer(self.initial, self.token_width + rules, e, e, "encoder", **shared)
        self.router = self.make_router(RouterInput(width=rules, hidden=k))
        # queries, keys and values of all heads, and the bypass of every module, in one product
        projections = (3 * self.num_heads + modules) * k
        self.project = Dense(self.initial, e, projections, "projections", **shared)
        self.first = Dense(self.initial, module_inputs, hidden, "modules_first", groups=modules, **shared)
        scored = self.router.needs_scores
        self.mixture = Mixture(self.initial, modules, hidden, e, "modules_last", with_scores=scored, **shared)
        self.decoder = TwoLayer(self.initial, e, e, 1, "decoder", **shared)

    def forward(self, inputs, rule):
        members, (num_tokens, batch) = self.num_members, ops.shape(inputs)[2:]
        modules, heads, k = self.num_modules, self.num_heads, self.head_width
        flat_rule = ops.reshape(rule, [members, self.num_rules, -1])
        tokens = ops.concatenate([ops.reshape(inputs, [members, self.token_width, -1]), flat_rule], axis=1)
        projected = ops.reshape(self.project(self.encoder(tokens)), [members, -1, k, num_tokens, batch])
        query, key, value = (projected[:, i * heads : (i + 1) * heads] for i in range(3))
        attended = ops.reshape(attend(query, key, value), [members, modules, heads // modules * k, -1])
        bypass = ops.reshape(projected[:, 3 * heads :], [members, modules, k, -1])
        h = ops.relu(self.first(ops.concatenate([attended, bypass], axis=2)))
        h = ops.reshape(h, [members, modules * self.module_hidden, -1])
        if self.router.needs_scores:
            activation = self.router(scores=self.mixture.scores(h))
        else:
            activation = self.router(rule=flat_rule, rule_features=flat_rule)
        outputs = self.decoder(self.mixture(h, activation))
        return (
            ops.reshape(outputs, [members, 1, num_tokens, batch]),
            ops.reshape(activation, [members, modules, num_tokens, batch]),
        )
