"""Modular recurrence: R cells that each propose the next value of one shared state."""

from typing import Any

import keras
from keras import ops

from modtf.base.checks import check_choice
from modtf.models.architectures import register_architecture
from modtf.models.architectures.sizes import rnn_state
from modtf.models.base import ModularModel
from modtf.models.layers import Dense, TwoLayer, flat
from modtf.models.recurrence import CELLS, SharedState


@register_architecture("rnn")
class ModularRNN(ModularModel):
    """Encoder, R cells (one for monolithic) around one shared state, decoder.

    Args:
        cell: "lstm" (published) or "simple".
    """

    def make_layers(self, cell: str = "lstm") -> None:
        check_choice("cell", cell, CELLS)
        self.expect(not self.takes_ids, "tokens of numbers")
        e, gates, shared = self.width, CELLS[cell].num_gates, {"dtype": self.dtype_policy}
        self.encoder = TwoLayer(self.initial, self.token_width + self.num_rules, e, e, "encoder", **shared)
        self.router = self.make_router(
            self.num_rules, hidden=lambda modules: rnn_state(e, modules, gates), use_bias=False
        )
        modules = self.num_modules
        h = self.state_width = rnn_state(e, modules, gates)
        self.shared_state = SharedState(
            self.initial, CELLS[cell], modules, h, self.router, dtype=self.variable_dtype
        )
        alone = self.shared_state.use_bias  # PyTorch's cell, uniform in +-1/sqrt(h) throughout
        bias: dict[str, Any] = {"use_bias": alone, "fan_in": h if alone else None}
        outputs = modules * self.shared_state.gates
        self.from_input = Dense(self.initial, e, outputs, "from_input", **bias, **shared)
        self.loop = keras.layers.RNN(self.shared_state, return_sequences=True, dtype=self.variable_dtype)
        self.decoder = TwoLayer(
            self.initial, h, h, self.target_width or 1, "decoder", **shared, last_dtype=self.variable_dtype
        )

    def forward(self, inputs, rule):
        by_token, flat_rule = ops.shape(inputs)[2:], flat(rule)
        encoded = self.encoder(ops.concatenate([flat(inputs), self.visible(flat_rule)], axis=1))
        # The router runs once here, or at every step with the rule if the modules score themselves.
        if self.router.needs_scores:
            routing = self.router.with_extra(flat_rule)
        else:
            routing = self.route(flat_rule, self.visible(flat_rule))
        if self.shared_state.can_scan:
            encoded = ops.reshape(encoded, [self.num_members, self.width, *by_token])
            routing = ops.reshape(routing, [self.num_members, routing.shape[1], *by_token])
            states, *by_module = self.shared_state.scan(self.from_input, encoded, routing)
        else:
            states, *by_module = self._step_by_step(encoded, routing, *by_token)
        return self.decoder(flat(states)), *map(flat, by_module)

    def _step_by_step(self, encoded, routing, num_tokens, batch):
        """Do what `SharedState.scan` does, for the cells and routers that it does not support."""
        dtype = self.variable_dtype
        driven, routing = ops.cast(self.from_input(encoded), dtype), ops.cast(routing, dtype)
        sequence = ops.concatenate([driven, routing], axis=1)  # [P, F, N * B]
        # [P, N, F, B], the layout that `keras.layers.RNN` expects
        sequence = ops.reshape(sequence, [self.num_members, -1, num_tokens, batch])
        sequence = ops.transpose(sequence, [0, 2, 1, 3])
        start = ops.zeros([self.num_members, self.state_width, batch], sequence.dtype)
        steps = self.loop(sequence, initial_state=[start] * len(self.shared_state.state_size))
        steps = ops.transpose(steps, [0, 2, 1, 3])  # [P, h + M, N, B], or with the scores [P, h + 2M, N, B]
        h, modules = self.state_width, self.num_modules
        return steps[:, :h], *(steps[:, n : n + modules] for n in range(h, steps.shape[1], modules))
