"""Train a language model with two mixtures of experts on text that comes with Python: do experts specialise?

Training takes seconds on a CPU. The same gates are measured twice: by the class of the token (a character),
and by the domain of its text.
"""

import inspect
import pydoc
from html.entities import html5
from pydoc_data.topics import topics

import keras
import numpy as np
from keras import ops

import modtf
from modtf.routing import Names, report_text

EXPERTS, WIDTH, CONTEXT, LETTERS, DOCUMENT, EPOCHS = 6, 48, 6, 30_000, 500, 2
CLASSES = ("letter", "digit", "space", "punctuation")
DOMAINS = {
    "manual": " ".join(topics.values()),
    "program": inspect.getsource(pydoc),
    "character names": " ".join(html5),
}


class Mixture(keras.layers.Layer):
    """A mixture of small networks; the gates `[tokens, experts]` weight their outputs."""

    def build(self, shape):
        self.router = keras.layers.Dense(EXPERTS, activation="softmax")
        self.router.build(shape)
        self.first = self.add_weight(shape=(EXPERTS, WIDTH, WIDTH), name="first")
        self.second = self.add_weight(shape=(EXPERTS, WIDTH, WIDTH), name="second")

    def call(self, x):
        gates = self.router(x)
        hidden = ops.relu(ops.einsum("td,edh->teh", x, self.first))
        return x + ops.einsum("te,teh,ehd->td", gates, hidden, self.second), gates


def token_class(letter: str) -> int:
    kinds = (str.isalpha, str.isdigit, str.isspace)
    return next((i for i, is_kind in enumerate(kinds) if is_kind(letter)), len(kinds))


keras.utils.set_random_seed(0)
text = "".join(words[:LETTERS] for words in DOMAINS.values())
domains = np.repeat(np.arange(len(DOMAINS)), [min(len(words), LETTERS) for words in DOMAINS.values()])
vocabulary, tokens = np.unique(np.array(list(text)), return_inverse=True)
contexts = np.lib.stride_tricks.sliding_window_view(tokens, CONTEXT)[:-1]  # the last has no next token

inputs = keras.Input((CONTEXT,), dtype="int32")
x = keras.layers.Flatten()(keras.layers.Embedding(len(vocabulary), 16)(inputs))
x, first = Mixture()(keras.layers.Dense(WIDTH, activation="relu")(x))
x, second = Mixture()(keras.layers.LayerNormalization()(x))
model = keras.Model(inputs, keras.layers.Dense(len(vocabulary))(x))
router = keras.Model(inputs, ops.stack([first, second]))  # [layers, tokens, experts]

model.compile(keras.optimizers.Adam(3e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(contexts, tokens[CONTEXT:], batch_size=512, epochs=EPOCHS, verbose=0).history
print("nats a character, by epoch:", " ".join(f"{loss:.2f}" for loss in history["loss"]))

gates = np.concatenate(
    [router.predict_on_batch(contexts[i : i + 4096]) for i in range(0, len(contexts), 4096)], axis=1
)
last = slice(CONTEXT - 1, -1)  # experts process the last token of each context
documents = np.arange(len(tokens))[last] // DOCUMENT
classes = np.array([token_class(letter) for letter in text])[last]
for what, labels, names in (("class", classes, CLASSES), ("domain", domains[last], list(DOMAINS))):
    layers = modtf.measure_activations(gates, labels, documents=documents)
    print(f"\nBy {what} of the token:\n{report_text(layers, Names(names))}")
    for row in (row for row in layers[1].module_rows() if row["by"] == "hard"):
        found = f"{row['top_label_share']:.0%} {names[row['top_label']]}" if row["tokens"] else "never chosen"
        print(f"layer 1, expert {row['module']}: {row['tokens']} tokens, {found}")
