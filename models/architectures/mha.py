"""Modular multi-head attention. A module has two heads, a bypass and a two-layer network on top of them."""

from typing import Any

from keras import ops

from modtf.models.architectures import register_architecture
from modtf.models.architectures.sizes import mha_head, mha_heads, mha_hidden
from modtf.models.base import ModularModel
from modtf.models.initial import InitialWeights
from modtf.models.kernels.attention import attend, project
from modtf.models.layers import Dense, Mixture, TwoLayer, flat


class TokenEncoder(TwoLayer):
    """Dense, ReLU, dense on [inputs, one-hot rule] of every token, with F inputs."""

    def __init__(
        self, initial: InitialWeights, inputs: int, num_rules: int, width: int, name: str, dtype: Any = None
    ):
        super().__init__(initial, inputs + num_rules, width, width, name, dtype=dtype)
        self.inputs = inputs

    def call(self, x):
        """Encode a pair, inputs [P, F, N, B] and rules [P, R, N * B], as [P, width, N * B]."""
        inputs, rule = x
        kernel = self.first.kernel
        members, (num_tokens, batch) = kernel.shape[0], ops.shape(inputs)[2:]
        if self.inputs <= kernel.shape[1]:
            return super().call(
                ops.concatenate([ops.reshape(inputs, [members, self.inputs, -1]), rule], axis=1)
            )
        # Wide inputs are multiplied without a transposition; the narrower product is transposed instead.
        tokens = ops.reshape(ops.transpose(inputs, [0, 3, 2, 1]), [members, -1, self.inputs])
        h = ops.matmul(tokens, ops.transpose(kernel[:, :, : self.inputs], [0, 2, 1]))
        h = ops.transpose(ops.reshape(h, [members, batch, num_tokens, -1]), [0, 3, 2, 1])
        h = ops.reshape(h, [members, kernel.shape[1], -1]) + ops.matmul(kernel[:, :, self.inputs :], rule)
        return self.second(ops.relu(h + self.first.bias))


@register_architecture("mha")
class ModularMHA(ModularModel):
    """Encoder, two heads per module (2R for monolithic), modules on their heads and bypass, decoder."""

    def make_layers(self) -> None:
        fits = self.is_sequence and not self.takes_ids and self.target_width in (None, 1)
        self.expect(fits, "sequences of numbers with a plain number as the target of each token")
        e, rules, shared = self.width, self.num_rules, {"dtype": self.dtype_policy}
        self.encoder = TokenEncoder(self.initial, self.token_width, rules, e, "encoder", **shared)
        self.router = self.make_router(rules, hidden=lambda modules: mha_head(e, mha_heads(rules, modules)))
        modules = self.num_modules
        self.num_heads = mha_heads(rules, modules)
        k = self.head_width = mha_head(e, self.num_heads)
        module_inputs = (self.num_heads // modules + 1) * k
        hidden = self.module_hidden = mha_hidden(e, rules, modules)
        # Four products: one product would need slices, and their gradient costs more than the fusion saves.
        self.queries = Dense(self.initial, e, self.num_heads * k, "queries", **shared)
        self.keys = Dense(self.initial, e, self.num_heads * k, "keys", **shared)
        self.values = Dense(self.initial, e, self.num_heads * k, "values", **shared)
        self.bypass = Dense(self.initial, e, modules * k, "bypass", **shared)
        self.first = Dense(self.initial, module_inputs, hidden, "modules_first", groups=modules, **shared)
        scored = self.router.needs_scores
        self.mixture = Mixture(self.initial, modules, hidden, e, "modules_last", with_scores=scored, **shared)
        last = {"last_dtype": self.variable_dtype}
        self.decoder = TwoLayer(self.initial, e, e, 1, "decoder", **shared, **last)

    def forward(self, inputs, rule):
        members, (num_tokens, batch) = self.num_members, ops.shape(inputs)[2:]
        modules, heads, k = self.num_modules, self.num_heads, self.head_width
        flat_rule = flat(rule)
        told = self.visible(flat_rule)
        encoded = self.encoder((inputs, told))
        head = [k, num_tokens, batch]
        query, key, value = (
            ops.cast(project(layer.kernel, layer.bias, encoded, head), self.variable_dtype)
            for layer in (self.queries, self.keys, self.values)
        )
        attended = ops.cast(attend(query, key, value), encoded.dtype)
        attended = ops.reshape(attended, [members, modules, heads // modules * k, -1])
        bypass = ops.reshape(self.bypass(encoded), [members, modules, k, -1])
        h = ops.relu(self.first(ops.concatenate([attended, bypass], axis=2)))
        h = ops.reshape(h, [members, modules * self.module_hidden, -1])
        activation, scores = self.route_with_scores(flat_rule, told, lambda: self.mixture.scores(h))
        return self.decoder(self.mixture(h, activation)), activation, scores

    def forward_flops(self, num_tokens=None):
        num_tokens = num_tokens or self.population.family.num_tokens(self.population.task)
        scores = sums = 2 * num_tokens**2 * self.num_heads * self.head_width  # for every pair of tokens
        return super().forward_flops(num_tokens) + scores + sums
