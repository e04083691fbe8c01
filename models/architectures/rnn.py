"""Modular recurrence: R cells that propose the next value of one shared state."""

import keras
from keras import ops

from modtf.models.base import ModularModel
from modtf.models.cells import CELLS
from modtf.models.layers import Dense, MemberLayer, TwoLayer
from modtf.models.routers.base import RouterInput
from modtf.models.scan import scan
from modtf.models.sizes import rnn_state
from modtf.task import check_choice


class StateScore(MemberLayer):
    """w_m . ReLU([W_m x ; U_m h]): each module's score from its own gates' inputs; no bias."""

    def __init__(self, initial, modules: int, inputs: int, name: str, dtype=None):
        super().__init__(initial, name, dtype)
        self.kernel = self.uniform("kernel", [2, modules, inputs, 1], 2 * inputs)

    def call(self, from_input, from_state):
        """W_m x and U_m h, each [P, M, inputs, B] -> [P, M, B]."""
        return ops.sum(
            ops.relu(from_input) * self.kernel[:, 0] + ops.relu(from_state) * self.kernel[:, 1], axis=2
        )


@keras.saving.register_keras_serializable("modtf")
class ModularRNN(ModularModel):
    """Encoder, R cells (one for monolithic) around one shared state, decoder.

    Args:
        cell: "lstm" (published) or "simple".
    """

    def make_layers(self, cell: str = "lstm") -> None:
        e, modules, shared = self.width, self.num_modules, {"dtype": self.dtype_policy}
        check_choice("cell", cell, tuple(CELLS))
        self.cell = CELLS[cell]
        single = modules == 1
        h = self.state_width = rnn_state(e, self.num_rules, modules, self.cell.num_gates)
        gates = self.gates_width = self.cell.num_gates * h
        self.encoder = TwoLayer(self.initial, self.token_width + self.num_rules, e, e, "encoder", **shared)
        self.router = self.make_router(RouterInput(width=self.num_rules, hidden=h, use_bias=False))
        self.from_input = Dense(self.initial, e, modules * gates, "from_input", use_bias=single, **shared)
        self.from_state = Dense(self.initial, h, modules * gates, "from_state", use_bias=single, **shared)
        if self.router.needs_scores:
            self.score = StateScore(self.initial, modules, gates, "score", **shared)
        self.decoder = TwoLayer(self.initial, h, h, self.target_width or 1, "decoder", **shared)

    def forward(self, inputs, rule):
        members, (num_tokens, batch) = self.num_members, ops.shape(inputs)[2:]
        flat_rule = ops.reshape(rule, [members, self.num_rules, -1])
        tokens = ops.concatenate([ops.reshape(inputs, [members, self.token_width, -1]), flat_rule], axis=1)
        driven = ops.reshape(
            self.from_input(self.encoder(tokens)),
            [members, self.num_modules, self.gates_width, num_tokens, batch],
        )
        sequence = {"driven": ops.transpose(driven, [3, 0, 1, 2, 4])}
        if not self.router.needs_scores:
            activation = self.router(rule=flat_rule, rule_features=flat_rule)
            activation = ops.reshape(activation, [members, self.num_modules, num_tokens, batch])
            sequence["activation"] = ops.transpose(activation, [2, 0, 1, 3])
        state = ops.zeros_like(driven[:, 0, : self.state_width, 0])  # [P, h, B]
        carry = {"state": (state,) * self.cell.num_states, "activation": ops.zeros_like(driven[:, :, 0, 0])}
        _, trajectory = scan(self._step, carry, sequence)
        states, activations = trajectory["state"][0], trajectory["activation"]
        states = ops.transpose(states, [1, 2, 0, 3])  # [P, h, N, B]
        outputs = self.decoder(ops.reshape(states, [members, self.state_width, -1]))
        outputs = ops.reshape(outputs, [members, self.target_width or 1, num_tokens, batch])
        return outputs, ops.transpose(activations, [1, 2, 0, 3])

    def _step(self, carry, token):
        """One token: carry {state: each [P, h, B], activation [P, M, B]} and the token's
        {driven [P, M, gates, B]} -> the next carry, twice, as `ops.scan` wants it."""
        state, driven = carry["state"], token["driven"]
        recurrent = ops.reshape(self.from_state(state[0]), ops.shape(driven))
        if self.router.needs_scores:
            activation = self.router(scores=self.score(driven, recurrent))
        else:
            activation = token["activation"]
        gates = ops.reshape(
            driven + recurrent,
            [self.num_members, self.num_modules, self.cell.num_gates, self.state_width, -1],
        )
        proposals = self.cell.step(gates, state)
        if self.num_modules == 1:
            state = tuple(proposal[:, 0] for proposal in proposals)
        else:
            state = tuple(ops.sum(activation[:, :, None] * proposal, axis=1) for proposal in proposals)
        carry = {"state": state, "activation": activation}
        return carry, carry
