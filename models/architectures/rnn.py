"""Modular recurrence: R cells that propose the next value of one shared state."""

import keras
from keras import ops

from modtf.models.base import ModularModel
from modtf.models.cells import CELLS
from modtf.models.layers import Dense, TwoLayer
from modtf.models.recurrence import SharedState
from modtf.models.routers.base import RouterInput
from modtf.models.sizes import rnn_state
from modtf.task import check_choice


@keras.saving.register_keras_serializable("modtf")
class ModularRNN(ModularModel):
    """Encoder, R cells (one for monolithic) around one shared state, decoder.

    Args:
        cell: "lstm" (published) or "simple".
    """

    def make_layers(self, cell: str = "lstm") -> None:
        e, modules, shared = self.width, self.num_modules, {"dtype": self.dtype_policy}
        check_choice("cell", cell, tuple(CELLS))
        h = self.state_width = rnn_state(e, self.num_rules, modules, CELLS[cell].num_gates)
        self.encoder = TwoLayer(self.initial, self.token_width + self.num_rules, e, e, "encoder", **shared)
        self.router = self.make_router(RouterInput(width=self.num_rules, hidden=h, use_bias=False))
        self.shared_state = SharedState(self.initial, CELLS[cell], modules, h, self.router, **shared)
        self.from_input = Dense(
            self.initial, e, modules * self.shared_state.gates, "from_input", use_bias=modules == 1, **shared
        )
        self.decoder = TwoLayer(self.initial, h, h, self.target_width or 1, "decoder", **shared)

    def forward(self, inputs, rule):
        members, (num_tokens, batch) = self.num_members, ops.shape(inputs)[2:]

        flat_rule = ops.reshape(rule, [members, self.num_rules, -1])
        tokens = ops.concatenate([ops.reshape(inputs, [members, self.token_width, -1]), flat_rule], axis=1)
        encoded, activation = self.encoder(tokens), None
        if not self.router.needs_scores:
            activation = self.router(rule=flat_rule, rule_features=flat_rule)
        states, activations = self.shared_state.recur(encoded, self.from_input, activation, num_tokens, batch)
        outputs = self.decoder(ops.reshape(states, [members, self.state_width, -1]))
        return ops.reshape(outputs, [members, self.target_width or 1, num_tokens, batch]), activations
