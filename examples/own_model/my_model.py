"""Your own mixture of experts, in plain Keras: `modtf run --plugin=my_model.py --model=my_model`."""

import keras

import modtf


class MixtureOfExperts(keras.Model):
    """A gate that sees token and rule, and M experts for any number of rules."""

    def __init__(self, num_rules, experts, hidden):
        super().__init__()
        self.rule = keras.layers.Embedding(num_rules, num_rules, embeddings_initializer="identity")
        self.gate = keras.layers.Dense(experts, activation="softmax")
        self.first = keras.layers.Dense(experts * hidden, activation="relu")
        self.second = keras.layers.EinsumDense("...mh,mh->...m", [experts], bias_axes="m")
        self.split = experts, hidden

    def call(self, features):
        x = keras.ops.concatenate([features["inputs"], self.rule(features["rule"])], axis=-1)
        activation = self.gate(x)  # [B, (N,) M], at least 0, sum 1
        hidden = keras.ops.reshape(self.first(x), [*keras.ops.shape(x)[:-1], *self.split])
        target = keras.ops.sum(activation * self.second(hidden), axis=-1)  # [B, (N)]
        return {"target": target, "activation": activation}


@modtf.register_model("my_model")
def my_model(task, width, seed, experts=6):
    """Build the model for a task and seed; `--set model.experts=4` sets an option."""
    return MixtureOfExperts(task.num_rules, experts, hidden=4 * width // experts)


@modtf.register_model("my_baseline")
def my_baseline(task, width, seed):
    """Build a model without modules: it has performance only."""
    inputs = keras.Input([*[None][: task.is_sequence], task.token_width], name="inputs")
    rule = keras.Input([None][: task.is_sequence], dtype="int32", name="rule")
    one_hot = keras.layers.Embedding(task.num_rules, task.num_rules)(rule)
    x = keras.layers.Dense(4 * width, activation="relu")(keras.layers.Concatenate()([inputs, one_hot]))
    target = keras.layers.Dense(1)(x)[..., 0]
    return keras.Model({"inputs": inputs, "rule": rule}, {"target": target})
