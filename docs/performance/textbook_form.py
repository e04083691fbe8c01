"""Models and training as one writes them first: all answers in memory, data by NumPy, Keras's defaults.

`python benchmarks/bench.py --arch=mlp --baseline=docs/performance/textbook_form.py:textbook` measures them.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from modtf.datasets.families.base import data_class
from modtf.datasets.families.mha import Lookup
from modtf.datasets.families.mlp import Affine
from modtf.datasets.families.rnn import LinearDynamics
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.mha import ModularMHA
from modtf.models.architectures.mlp import ModularMLP
from modtf.models.architectures.rnn import ModularRNN
from modtf.models.architectures.sizes import mha_head, mha_heads, mha_hidden, mlp_hidden, rnn_state
from modtf.models.base import ModularModel
from modtf.tasks.protocol import Protocol
from modtf.tasks.task import Task


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
TEXTBOOK = {ModularMLP: TextbookMLP, ModularMHA: TextbookMHA, ModularRNN: TextbookRNN}


def textbook_labels(task: Task, inputs: np.ndarray, rule: np.ndarray) -> np.ndarray:
    """y of inputs [B, (N,) F] and rules [B, (N,)]."""
    data = data_class(task.family)
    return LABELS[data](data.parameters(task), inputs, rule)


def textbook_dataset(task: Task, batch_size: int) -> tf.data.Dataset:
    """Endless batches, as `modtf.stream` has them, of other random numbers."""
    leading = [batch_size, task.family.training_length] if task.is_sequence else [batch_size]

    def batches() -> Iterator[tuple[dict[str, np.ndarray], np.ndarray]]:
        rng = np.random.default_rng(0)
        while True:
            inputs = rng.standard_normal([*leading, task.token_width])
            rule = rng.integers(task.num_rules, size=leading)
            target = textbook_labels(task, inputs, rule)
            features = {"inputs": inputs.astype(np.float32), "rule": rule.astype(np.int32)}
            yield features, target.astype(np.float32)

    signature = tf.nest.map_structure(lambda a: tf.TensorSpec(a.shape, a.dtype), next(batches()))
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def _affine(parameters, inputs, rule):
    return parameters["alpha"][rule] * inputs[:, 0] + parameters["beta"][rule] * inputs[:, 1]


def _search(parameters, inputs, rule):
    """Every rule is searched, and the token's own one kept (v1: scalar keys)."""
    fields = inputs.reshape([*rule.shape, -1, 4])  # [B, N, R, (q, q', v, v')]
    itself = np.eye(rule.shape[1])[:, :, None]
    found = []
    for key, value in ((0, 2), (1, 3)):
        keys = fields[..., key]
        distance = np.abs(keys[:, :, None] - keys[:, None])
        nearest = np.argmin(np.where(itself, np.inf, distance), axis=2)  # [B, N, R]
        found.append(np.take_along_axis(fields[..., value], nearest, axis=1))
    labels = parameters["alpha"] * found[0] + parameters["beta"] * found[1]
    return np.take_along_axis(labels, rule[..., None], axis=2)[..., 0]


def _dynamics(parameters, inputs, rule):
    state, labels = np.zeros_like(inputs[:, 0]), []
    for n in range(rule.shape[1]):
        transition, drive = (parameters[name][rule[:, n]] for name in "AB")
        state = (state[:, None] @ transition + inputs[:, n, None] @ drive)[:, 0]
        labels.append(state @ parameters["w"][:, 0])
    return np.stack(labels, axis=1)


LABELS = {Affine: _affine, Lookup: _search, LinearDynamics: _dynamics}


def has_textbook(task: Task, variant: str) -> bool:
    """Return whether the task's data, its architecture and the variant exist in textbook form."""
    architecture, options = ARCHITECTURES[task.family.architecture], task.family.complete({})
    by_default = all(getattr(task, name) == value for name, value in options.items())
    known = data_class(task.family) in LABELS and architecture in TEXTBOOK
    return by_default and known and variant in MIXTURES


def textbook_model(task: Task, variant: str, width: int) -> keras.Model:
    """Return the textbook form of `modtf.build(task, variant, width)`, built and compiled by Keras's
    defaults."""
    model = TEXTBOOK[ARCHITECTURES[task.family.architecture]](task, variant, width)
    features, _ = next(iter(textbook_dataset(task, batch_size=2)))
    model(features)  # creates its weights
    clipnorm = Protocol.published(task).training.clipnorm
    optimizer = keras.optimizers.Adam(1e-4, epsilon=1e-8, global_clipnorm=clipnorm)
    model.compile(optimizer=optimizer, loss="mean_absolute_error")
    return model


def textbook(model: ModularModel, batch_size: int) -> tuple[keras.Model, tf.data.Dataset] | None:
    """Return the textbook form of a model of modtf; None if there is none."""
    task = model.population.task
    if not has_textbook(task, model.variant):
        return None
    return textbook_model(task, model.variant, model.width), textbook_dataset(task, batch_size)
