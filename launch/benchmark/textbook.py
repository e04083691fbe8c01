"""The models as one writes them first: every module's answer in memory, [batch, modules, width], then mixed.

They have exactly the parameters of `modtf.models` and none of its care; only their cost is of interest.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import layers, ops

from modtf.models.architectures.mha import ModularMHA
from modtf.models.architectures.mlp import ModularMLP
from modtf.models.architectures.rnn import ModularRNN
from modtf.models.architectures.sizes import mha_head, mha_heads, mha_hidden, mlp_hidden, rnn_state
from modtf.models.base import ModularModel
from modtf.task import Task


def two_layer(hidden: int, outputs: int, use_bias: bool = True) -> keras.Sequential:
    return keras.Sequential(
        [layers.Dense(hidden, activation="relu", use_bias=use_bias), layers.Dense(outputs, use_bias=use_bias)]
    )


def weighted_sum(activation, answers):
    """p [..., M] and answers [..., M, width] -> [..., width]."""
    return ops.sum(activation[..., None] * answers, axis=-2)


# Variant -> the mixture of answers [..., M, width (+ score)], given the model, rules and rule features
MIXTURES: dict[str, Callable[..., Any]] = {
    "monolithic": lambda model, answers, rule, features: answers[..., 0, :],
    "modular": lambda model, answers, rule, features: weighted_sum(
        ops.softmax(answers[..., -1]), answers[..., :-1]
    ),
    "modular_op": lambda model, answers, rule, features: weighted_sum(
        ops.softmax(model.router(features)), answers
    ),
    "gt_modular": lambda model, answers, rule, features: weighted_sum(rule, answers),
}


class TextbookModel(keras.Model):
    """Features to target. Subclasses make layers and answer with `[..., modules, width]`."""

    def __init__(self, task: Task, variant: str, width: int):
        super().__init__()
        self.task, self.variant, self.width, self.num_rules = task, variant, width, task.num_rules
        self.num_modules = 1 if variant == "monolithic" else task.num_rules
        self.scored = 1 if variant == "modular" else 0
        self.make_layers()

    def make_layers(self) -> None:
        raise NotImplementedError

    def one_hot(self, features):
        return ops.one_hot(features["rule"], self.num_rules)

    def mix(self, answers, rule, rule_features):
        """Answers [..., M, width (+ score)] -> their mixture [..., width]."""
        return MIXTURES[self.variant](self, answers, rule, rule_features)


class TextbookMLP(TextbookModel):
    def make_layers(self) -> None:
        e, modules, outputs = self.width, self.num_modules, 4 * self.width + self.scored
        hidden = mlp_hidden(e, modules)
        self.digit_encoder, self.rule_encoder = two_layer(e, e), two_layer(e, e)
        self.first = layers.EinsumDense("bi,mih->bmh", [modules, hidden], "relu", bias_axes="mh")
        self.second = layers.EinsumDense("bmh,mho->bmo", [modules, outputs], bias_axes="mo")
        self.router = layers.Dense(self.num_rules) if self.variant == "modular_op" else None
        self.decoder = two_layer(e, 1)

    def call(self, features):
        inputs, rule = features["inputs"], self.one_hot(features)
        encoded = self.rule_encoder(rule)
        z = ops.concatenate([*(self.digit_encoder(inputs[:, i : i + 1]) for i in range(2)), encoded], axis=-1)
        return self.decoder(self.mix(self.second(self.first(z)), rule, encoded))[..., 0]


class TextbookMHA(TextbookModel):
    def make_layers(self) -> None:
        e, modules = self.width, self.num_modules
        heads = self.num_heads = mha_heads(self.num_rules, modules)
        k = self.head_width = mha_head(e, heads)
        hidden = mha_hidden(e, self.num_rules, modules)
        self.encoder, self.decoder = two_layer(e, e), two_layer(e, 1)
        self.query, self.key, self.value = (layers.Dense(heads * k) for _ in range(3))
        self.bypass = layers.Dense(modules * k)
        self.first = layers.EinsumDense("bnmi,mih->bnmh", [None, modules, hidden], "relu", bias_axes="mh")
        self.second = layers.EinsumDense("bnmh,mho->bnmo", [None, modules, e + self.scored], bias_axes="mo")
        self.router = two_layer(k, self.num_rules) if self.variant == "modular_op" else None

    def call(self, features):
        rule, modules, k = self.one_hot(features), self.num_modules, self.head_width
        tokens = self.task.family.training_length
        x = self.encoder(ops.concatenate([features["inputs"], rule], axis=-1))
        split = [-1, tokens, self.num_heads, k]
        query, key, value = (ops.reshape(f(x), split) for f in (self.query, self.key, self.value))
        scores = ops.einsum("bqhk,bthk->bhqt", query, key) / k**0.5
        weights = ops.softmax(scores - 1e9 * ops.eye(tokens))
        heads = ops.einsum("bhqt,bthk->bqhk", weights, value)
        heads = ops.reshape(heads, [-1, tokens, modules, self.num_heads // modules * k])
        bypass = ops.reshape(self.bypass(x), [-1, tokens, modules, k])
        answers = self.second(self.first(ops.concatenate([heads, bypass], axis=-1)))
        return self.decoder(self.mix(answers, rule, rule))[..., 0]


class TextbookCell(layers.Layer):
    """M LSTM cells that share one mixed state; inputs [encoded token, one-hot rule]."""

    def __init__(self, model: TextbookModel, state: int):
        super().__init__()
        self.mix, self.width, self.scored = model.mix, model.width, model.scored
        self.state_size, self.num_rules = [state, state], model.num_rules
        self.num_modules, self.router = model.num_modules, model.router
        bias = "mo" if model.num_modules == 1 else None
        self.from_input, self.from_state = (
            layers.EinsumDense("bi,mio->bmo", [model.num_modules, 4 * state], bias_axes=bias)
            for _ in range(2)
        )
        if self.scored:
            self.score = layers.EinsumDense("bmi,mio->bmo", [model.num_modules, 1])

    def build(self, input_shape):
        state = self.state_size[0]
        self.from_input.build([None, self.width])
        self.from_state.build([None, state])
        if self.scored:
            self.score.build([None, self.num_modules, 8 * state])
        if self.router is not None:
            self.router.build([None, self.num_rules])

    def call(self, token, states):
        encoded, rule = token[:, : self.width], token[:, self.width :]
        driven, recurrent = self.from_input(encoded), self.from_state(states[0])
        i, f, o, g = ops.split(driven + recurrent, 4, axis=-1)
        cell = ops.sigmoid(f) * states[1][:, None] + ops.sigmoid(i) * ops.tanh(g)
        answers = ops.concatenate([ops.sigmoid(o) * ops.tanh(cell), cell], axis=-1)
        if self.scored:
            score = self.score(ops.relu(ops.concatenate([driven, recurrent], axis=-1)))
            answers = ops.concatenate([answers, score], axis=-1)
        state = ops.split(self.mix(answers, rule, rule), 2, axis=-1)
        return state[0], state


class TextbookRNN(TextbookModel):
    def make_layers(self) -> None:
        e, state = self.width, rnn_state(self.width, self.num_modules)
        self.encoder, self.decoder = two_layer(e, e), two_layer(state, 1)
        self.router = two_layer(state, self.num_rules, False) if self.variant == "modular_op" else None
        self.recurrence = layers.RNN(TextbookCell(self, state), return_sequences=True)

    def call(self, features):
        rule = self.one_hot(features)
        x = self.encoder(ops.concatenate([features["inputs"], rule], axis=-1))
        return self.decoder(self.recurrence(ops.concatenate([x, rule], axis=-1)))[..., 0]


# Of an architecture; another's has no textbook form
TEXTBOOK: dict[type[ModularModel], type[TextbookModel]] = {
    ModularMLP: TextbookMLP,
    ModularMHA: TextbookMHA,
    ModularRNN: TextbookRNN,
}
