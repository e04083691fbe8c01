"""FiLM (Perez et al., 2018): the question scales and shifts the maps of residual blocks about the image."""

import keras
from keras import layers, ops

from modtf.base.checks import check_integer
from modtf.experiments.questions.networks.base import (
    KAIMING,
    WORDS,
    Layers,
    QuestionNetwork,
    with_coordinates,
)
from modtf.experiments.questions.sizes import FILM_WORD, HIDDEN, PROJECTION, STATE
from modtf.models.architectures import register_architecture


@register_architecture("film")
class FiLMNetwork(QuestionNetwork):
    """A GRU reads the question. A dense layer turns its last state into scales and shifts for all blocks.

    Args:
        blocks: the number of residual blocks.
    """

    def make_layers(self, blocks: int = 4):
        make, e = self.start(KAIMING), self.width
        count, side = check_integer("blocks", blocks, 1), self.side // 4
        word, state = max(1, int(FILM_WORD * e)), STATE * e
        self.words = make.embedding("words", self.num_rules, word)
        names = ("kernel", "recurrent", "bias")
        drawn = {f"{n}_initializer": make.uniform(f"gru_{n}", state**-0.5) for n in names}
        self.gru = layers.GRU(
            state, **drawn, unroll=True, seed=make.seed_of("gru"), name="gru", dtype=make.dtype
        )
        make.macs += 3 * 3 * state * (word + state)
        self.of_question = make.dense("of_question", state, count * 2 * e)
        self.stem = make.stem("stem", self.channels, e, e)
        self.residual = [Block(make, f"block{number}", e, side) for number in range(count)]
        self.project = make.conv("project", e + 2, PROJECTION * e, side, size=1, use_bias=False)
        self.norm = make.norm("project_norm")
        self.classifier = make.classifier(PROJECTION * e, HIDDEN * e)

    def forward(self, inputs, rule):
        how = {"training": self.training_now}
        question = self.gru(self.words(ops.take(rule, WORDS, axis=1)), **how)
        film = ops.reshape(self.of_question(question), [-1, len(self.residual), 2, 1, 1, self.width])
        x = self.stem(inputs, **how)
        for number, block in enumerate(self.residual):
            x = block(x, 1.0 + film[:, number, 0], film[:, number, 1], **how)
        x = ops.relu(self.norm(self.project(with_coordinates(x)), **how))
        return {"target": self.classifier(ops.max(x, axis=(1, 2)), **how)}


class Block(keras.layers.Layer):
    """t = relu(P [x; coordinates] + p), and t + relu(gamma * norm(W * t + b) + beta)."""

    def __init__(self, make: Layers, name: str, width: int, side: int):
        super().__init__(name=name, dtype=make.dtype)
        self.project = make.conv(f"{name}_project", width + 2, width, side, size=1)
        self.conv = make.conv(f"{name}_conv", width, width, side)
        self.norm = make.norm(f"{name}_norm", affine=False)

    def call(self, x, gamma, beta, training=None):
        x = ops.relu(self.project(with_coordinates(x)))
        return x + ops.relu(gamma * self.norm(self.conv(x), training=training) + beta)
