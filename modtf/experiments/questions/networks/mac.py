"""MAC (Hudson and Manning, 2018): cells that attend to the words, then read the image into a memory."""

from keras import layers, ops

from modtf.base.checks import check_integer
from modtf.experiments.questions.networks.base import WORDS, XAVIER, Layers, QuestionNetwork, with_coordinates
from modtf.experiments.questions.sizes import HIDDEN, MAC_WORD, MEMORY
from modtf.models.architectures import register_architecture


@register_architecture("mac")
class MACNetwork(QuestionNetwork):
    """A bidirectional LSTM reads the question. Every cell then has a control, which weights the words, a read
    of the image, which the control and the last memory weight, and a new memory.

    Args:
        cells: the number of cells. Their weights are shared, except those that turn the question to a cell.
    """

    def make_layers(self, cells: int = 12):
        make, e, d = self.start(XAVIER, zero_biases=True), self.width, MEMORY * self.width
        count, places, word = (
            check_integer("cells", cells, 1),
            (self.side // 4) ** 2,
            max(1, int(MAC_WORD * e)),
        )
        self.words = make.embedding("words", self.num_rules, word, bound=1.0)
        self.onward, self.backward = (_lstm(make, name, word, e) for name in ("onward", "backward"))
        self.stem = make.stem("stem", self.channels + 2, e, d)
        self.question = make.dense("question", d, d)
        self.turned = [make.dense(f"question{number}", d, d) for number in range(count)]
        self.word_score = make.dense("word_score", d, 1, times=3 * count)
        self.of_memory = make.dense("of_memory", d, d, times=count)
        self.of_image = make.dense("of_image", d, d, times=places)
        self.both = make.dense("both", 2 * d, d)
        self.both.build([None, 2 * d])
        make.macs += d * d * (places * (count + 1) - 2)  # the image's half is computed once
        self.place_score = make.dense("place_score", d, 1, times=places * count)
        self.write = make.dense("write", 2 * d, d, times=count)
        self.of_question = make.dense("of_question", d, d)
        self.classifier = make.classifier(2 * d, HIDDEN * e, bn=False)
        self.memory = self.add_weight(shape=[1, d], initializer=make.normal("memory"), name="memory")

    def forward(self, inputs, rule):
        how = {"training": self.training_now}
        words = self.words(ops.take(rule, WORDS, axis=1))
        onward, backward = self.onward(words, **how), ops.flip(self.backward(words, **how), axis=1)
        context = ops.concatenate([onward, backward], axis=-1)  # [B, 3, d]
        question = ops.concatenate([onward[:, -1], backward[:, 0]], axis=-1)
        image = self.stem(with_coordinates(inputs), **how)
        image = ops.reshape(image, [-1, image.shape[1] * image.shape[2], image.shape[3]])  # [B, places, d]
        seen, asked, d = self.of_image(image), ops.tanh(self.question(question)), image.shape[-1]
        kernel, bias = (ops.cast(weight, image.dtype) for weight in (self.both.kernel, self.both.bias))
        known = ops.matmul(seen, kernel[d:]) + bias
        memory = ops.cast(self.memory, image.dtype)
        for turn in self.turned:
            control = _weighted(context, self.word_score(context * turn(asked)[:, None]))
            both = ops.relu(ops.matmul(seen * self.of_memory(memory)[:, None], kernel[:d]) + known)
            read = _weighted(image, self.place_score(ops.relu(control[:, None] * both)))
            memory = ops.broadcast_to(memory, ops.shape(read))
            memory = self.write(ops.concatenate([read, memory], axis=-1))
        return {"target": self.classifier(ops.concatenate([memory, self.of_question(question)], 1), **how)}


def _lstm(make: Layers, name: str, word: int, state: int) -> layers.Layer:
    """Return an LSTM over the words that yields all its states."""
    make.macs += 3 * 4 * state * (word + state)
    drawn = {f"{n}_initializer": make.scaled(f"{name}_{n}") for n in ("kernel", "recurrent")}
    return layers.LSTM(
        state, **drawn, unit_forget_bias=False, return_sequences=True, go_backwards=name == "backward",
        unroll=True, seed=make.seed_of(name), name=name, dtype=make.dtype,
    )  # fmt: skip


def _weighted(rows, scores):
    """Return the sum of rows [B, N, d] weighted by the softmax of their scores [B, N, 1]."""
    return ops.sum(ops.softmax(scores, axis=1) * rows, axis=1)
