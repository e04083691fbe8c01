"""The modular MLP, which maps two digits and a rule to one number."""

from keras import ops

from modtf.models.architectures import register_architecture
from modtf.models.architectures.sizes import mlp_hidden
from modtf.models.base import ModularModel
from modtf.models.layers import Dense, Mixture, TwoLayer, product_flops


@register_architecture("mlp")
class ModularMLP(ModularModel):
    """Digit encoder shared by both inputs, rule encoder, modules on z = [enc x1, enc x2, enc c], decoder."""

    def make_layers(self) -> None:
        fits = self.token_width == 2 and not (self.is_sequence or self.takes_ids)
        self.expect(
            fits and self.target_width in (None, 1), "two numbers with a plain number as their target"
        )
        e, d, shared = self.width, 4 * self.width, {"dtype": self.dtype_policy}
        self.digit_encoder = TwoLayer(self.initial, 1, e, e, "digit_encoder", **shared)
        self.rule_encoder = TwoLayer(self.initial, self.num_rules, e, e, "rule_encoder", **shared)
        self.router = self.make_router(e)
        modules, hidden = self.num_modules, mlp_hidden(e, self.num_modules)
        self.first = Dense(self.initial, 3 * e, modules * hidden, "modules_first", **shared)
        scored = self.router.needs_scores
        self.mixture = Mixture(self.initial, modules, hidden, d, "modules_last", with_scores=scored, **shared)
        last = {"last_dtype": self.variable_dtype}
        self.decoder = TwoLayer(self.initial, d, e, 1, "decoder", **shared, **last)

    def forward(self, inputs, rule):
        inputs, rule = inputs[:, :, 0], rule[:, :, 0]  # one token: [P, 2, B], [P, R, B]
        members, batch = self.num_members, ops.shape(inputs)[2]
        digits = ops.reshape(
            self.digit_encoder(ops.reshape(inputs, [members, 1, -1])), [members, -1, 2, batch]
        )
        encoded_rule = self.rule_encoder(self.visible(rule))
        z = ops.concatenate([digits[:, :, 0], digits[:, :, 1], encoded_rule], axis=1)
        h = ops.relu(self.first(z))
        activation, scores = self.route_with_scores(rule, encoded_rule, lambda: self.mixture.scores(h))
        return self.decoder(self.mixture(h, activation)), activation, scores

    def forward_flops(self, num_tokens=None):
        encoder = [layer.kernel for layer in (self.digit_encoder.first, self.digit_encoder.second)]
        return super().forward_flops(num_tokens) + product_flops(encoder)  # for the second digit
