"""Vector-NMN (Bahdanau et al., 2019): one module with FiLM for all sub-tasks, whose answers are vectors."""

import keras
from keras import ops

from modtf.base.checks import check_choice, check_integer
from modtf.experiments.questions.networks.base import PYTORCH, Layers, QuestionNetwork
from modtf.experiments.questions.sizes import HIDDEN, MEMORY
from modtf.models.architectures import register_architecture

ENCODERS = {"all": 1, "group": 2}


@register_architecture("vector_nmn")
class VectorNMN(QuestionNetwork):
    """The module answers the leaves X and Y, and then the relation, given both answers.

    Args:
        encoder: "all" for one image encoder, "group" for one for the leaves and one for the relation.
        blocks: the number of residual blocks in the module.
    """

    def make_layers(self, encoder: str = "all", blocks: int = 2):
        check_choice("encoder", encoder, ENCODERS)
        make, e, d = self.start(PYTORCH), self.width, MEMORY * self.width
        names = [f"stem{number}" for number in range(ENCODERS[encoder])]
        self.stems = [make.stem(name, self.channels, e, d) for name in names]
        self.names = make.embedding("names", self.num_rules, d)
        self.module = Module(make, d, self.side // 4, check_integer("blocks", blocks, 1))
        self.classifier = make.classifier(d, HIDDEN * e)

    def forward(self, inputs, rule):
        how = {"training": self.training_now}
        seen = [stem(inputs, **how) for stem in self.stems]
        names = self.names(rule)  # [B, 3, d]
        leaves = ops.reshape(names[:, :2], [-1, names.shape[-1]])
        none = ops.zeros_like(leaves)
        both = self.module(ops.repeat(seen[0], 2, axis=0), ops.concatenate([leaves, none, none], axis=-1))
        both = ops.reshape(both, [-1, 2 * names.shape[-1]])
        answer = self.module(seen[-1], ops.concatenate([names[:, 2], both], axis=-1))
        return {"target": self.classifier(answer, **how)}


class Module(keras.layers.Layer):
    """Residual blocks relu(x + U2 * (gamma2 relu(U1 * (gamma1 x + beta1)) + beta2)), then the maximum over
    positions. Gamma and beta depend on the sub-task and the answers before: [name; left; right]."""

    def __init__(self, make: Layers, width: int, side: int, blocks: int):
        super().__init__(name="module", dtype=make.dtype)
        numbers, how = range(2 * blocks), {"times": 3}
        self.convs = [make.conv(f"conv{n}", width, width, side, **how) for n in numbers]
        self.first = [make.dense(f"film{n}_first", 3 * width, 3 * width, **how) for n in numbers]
        self.second = [make.dense(f"film{n}_second", 3 * width, 2 * width, **how) for n in numbers]

    def call(self, x, asked):
        for number in range(0, len(self.convs), 2):
            h = ops.relu(self.convs[number](self._film(number, x, asked)))
            x = ops.relu(x + self.convs[number + 1](self._film(number + 1, h, asked)))
        return ops.max(x, axis=(1, 2))

    def _film(self, number: int, x, asked):
        gamma, beta = ops.split(self.second[number](ops.relu(self.first[number](asked))), 2, axis=-1)
        return (2.0 * ops.tanh(gamma) + 1.0)[:, None, None] * x + beta[:, None, None]
