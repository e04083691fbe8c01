"""The models in their simplest form: token by token, head by head, module by module.

This independent implementation is the oracle for the fused models. One member at a time, in
float64; tensors are [batch, features], weights are read out of the fused model and used as W x + b.
"""

import math

import tensorflow as tf

from modtf.models.architectures import ARCHITECTURES as ARCHITECTURE_CLASSES


class Member:
    """One member of a model: its weights, dense layers as they were before fusion, and its shapes."""

    def __init__(self, model, index):
        self.model, self.index = model, index
        self.num_rules, self.num_modules = model.num_rules, model.num_modules

    def __call__(self, variable):
        """Return the member's part of a weight."""
        return None if variable is None else tf.convert_to_tensor(variable.value)[self.index]

    def dense(self, layer, x, rows=slice(None), group=None):
        """Apply rows `rows` of a dense layer, in its group `group`, to x [batch, inputs]."""
        kernel, bias = self(layer.kernel), self(layer.bias)
        if group is not None:
            kernel, bias = kernel[group], bias[group]
        y = x @ tf.transpose(kernel[rows])
        return y if bias is None else y + bias[rows, 0]

    def two_layer(self, block, x):
        return self.dense(block.second, tf.nn.relu(self.dense(block.first, x)))

    def module_answer(self, m, h):
        """Apply the last layer of module m to its hidden units h; return output and score, or None for it."""
        mixture = self.model.mixture
        columns = slice(m * h.shape[1], (m + 1) * h.shape[1])
        answer = h @ tf.transpose(self(mixture.kernel)[:, columns]) + self(mixture.bias)[:, m]
        if not hasattr(mixture, "score_kernel"):
            return answer, None
        score = tf.reduce_sum(h * self(mixture.score_kernel)[m, :, 0], axis=1) + self(mixture.score_bias)[m]
        return answer, score


# p [batch, M] of each variant, from the member, the one-hot rule, the rule-only router's input, the scores.


def monolithic(member, one_hot, rule_features, scores):
    return tf.ones_like(one_hot[:, :1])


def modular(member, one_hot, rule_features, scores):
    return tf.nn.softmax(tf.stack(scores, axis=1), axis=1)


def modular_op(member, one_hot, rule_features, scores):
    logits = member.model.router.logits
    forward = member.two_layer if hasattr(logits, "first") else member.dense
    return tf.nn.softmax(forward(logits, rule_features), axis=1)


def gt_modular(member, one_hot, rule_features, scores):
    return one_hot


def by_itself(member, one_hot, rule_features, scores):
    """Run a router without trained weights for one member."""
    router = member.model.router
    assert not router.trainable_variables, f"write {type(router).__name__} in textbook.py: it has weights"

    def feature_major(x):
        return tf.transpose(x)[None]

    own = feature_major(tf.stack(scores, axis=1)) if router.needs_scores else None
    rule, given = feature_major(one_hot), {}
    extra = router.extra_input(tf.repeat(rule, member.model.num_members, axis=0), False)
    if extra is not None:
        given["extra"] = tf.cast(extra[member.index][None], tf.float64)
    p = router.call(rule, feature_major(rule_features), own, **given)
    return tf.transpose(p[0])


def plugin_learned(member, one_hot, rule_features, scores):
    scores = tf.stack(scores, axis=1)
    return tf.nn.softmax(scores + member.dense(member.model.router.mixing, scores), axis=1)


def cosine(member, one_hot, rule_features, scores):
    router = member.model.router
    tokens = tf.math.l2_normalize(member.dense(router.projection, tf.stack(scores, axis=1)), axis=1)
    embeddings = tf.math.l2_normalize(member(router.embeddings.kernel), axis=1)
    cosines = tokens @ tf.transpose(embeddings)
    return tf.nn.softmax(cosines * tf.exp(member(router.log_sharpness)[0, 0]) / router.temperature, axis=1)


ROUTERS = {f.__name__: f for f in (monolithic, modular, modular_op, gt_modular, cosine, plugin_learned)}


def mix(p, answers):
    """Return sum_m p_m y_m, with [batch, modules, width] in memory."""
    return tf.reduce_sum(p[:, :, None] * tf.stack(answers, axis=1), axis=1)


def mlp(member, router, inputs, one_hot):
    """inputs [batch, 2], one_hot [batch, R] -> output [batch, 1], p [batch, M]."""
    model = member.model
    rule_features = member.two_layer(model.rule_encoder, one_hot)
    digits = [member.two_layer(model.digit_encoder, inputs[:, i : i + 1]) for i in range(2)]
    z = tf.concat([*digits, rule_features], axis=1)
    hidden = 4 * model.width // member.num_modules
    answers, scores = [], []
    for m in range(member.num_modules):
        h = tf.nn.relu(member.dense(model.first, z, rows=slice(m * hidden, (m + 1) * hidden)))
        answer, score = member.module_answer(m, h)
        answers.append(answer)
        scores.append(score)
    p = router(member, one_hot, rule_features, scores)
    return member.two_layer(model.decoder, mix(p, answers)), p


def mha(member, router, inputs, one_hot):
    """inputs [batch, N, F], one_hot [batch, N, R] -> outputs [batch, N, 1], p [batch, N, M]."""
    model, num_tokens, modules = member.model, inputs.shape[1], member.num_modules
    heads = 2 * (modules if modules > 1 else member.num_rules)
    k = 4 * model.width // heads

    tokens = [
        member.two_layer(model.encoder, tf.concat([inputs[:, n], one_hot[:, n]], axis=1))
        for n in range(num_tokens)
    ]
    # by token and head, or module: k numbers each
    projections = (model.queries, heads), (model.keys, heads), (model.values, heads), (model.bypass, modules)
    queries, keys, values, bypasses = (
        [[member.dense(layer, x, rows=slice(i * k, (i + 1) * k)) for i in range(count)] for x in tokens]
        for layer, count in projections
    )
    outputs, activations = [], []
    for n in range(num_tokens):
        others = [i for i in range(num_tokens) if i != n]
        attended = []
        for head in range(heads):
            similarity = [tf.reduce_sum(queries[n][head] * keys[i][head], 1) / math.sqrt(k) for i in others]
            attention = tf.nn.softmax(tf.stack(similarity, axis=1), axis=1)
            attended.append(mix(attention, [values[i][head] for i in others]))
        answers, scores = [], []
        per_module = heads // modules
        for m in range(modules):
            own = [*attended[m * per_module : (m + 1) * per_module], bypasses[n][m]]
            h = tf.nn.relu(member.dense(model.first, tf.concat(own, axis=1), group=m))
            answer, score = member.module_answer(m, h)
            answers.append(answer)
            scores.append(score)
        p = router(member, one_hot[:, n], one_hot[:, n], scores)
        outputs.append(member.two_layer(model.decoder, mix(p, answers)))
        activations.append(p)
    return tf.stack(outputs, axis=1), tf.stack(activations, axis=1)


def lstm(gates, states):
    i, f, o, g = gates
    cell = tf.sigmoid(f) * states[1] + tf.sigmoid(i) * tf.tanh(g)
    return [tf.sigmoid(o) * tf.tanh(cell), cell]


def simple(gates, states):
    return [tf.tanh(gates[0])]


CELLS = {"lstm": (lstm, 4, 2), "simple": (simple, 1, 1)}  # function, gates, states


def rnn(member, router, inputs, one_hot):
    """inputs [batch, N, 32], one_hot [batch, N, R] -> outputs [batch, N, D], p [batch, N, M]."""
    model, (batch, num_tokens, _) = member.model, inputs.shape
    cell, num_gates, num_states = CELLS[model.options.get("cell", "lstm")]
    width = model.shared_state.from_state.kernel.shape[-1]
    states = [tf.zeros([batch, width], tf.float64)] * num_states
    outputs, activations = [], []
    for n in range(num_tokens):
        x = member.two_layer(model.encoder, tf.concat([inputs[:, n], one_hot[:, n]], axis=1))
        proposals, scores = [], []
        for m in range(member.num_modules):
            rows = slice(m * num_gates * width, (m + 1) * num_gates * width)
            driven = member.dense(model.from_input, x, rows=rows)
            recurrent = member.dense(model.shared_state.from_state, states[0], rows=rows)
            proposals.append(cell(tf.split(driven + recurrent, num_gates, axis=1), states))
            if hasattr(model.shared_state, "score"):
                weights = tf.reshape(member(model.shared_state.score.kernel)[:, m, :, 0], [-1])
                scores.append(tf.reduce_sum(tf.nn.relu(tf.concat([driven, recurrent], axis=1)) * weights, 1))
        p = router(member, one_hot[:, n], one_hot[:, n], scores)
        states = [mix(p, [proposal[s] for proposal in proposals]) for s in range(num_states)]
        outputs.append(member.two_layer(model.decoder, states[0]))
        activations.append(p)
    return tf.stack(outputs, axis=1), tf.stack(activations, axis=1)


ARCHITECTURES = {f.__name__: f for f in (mlp, mha, rnn)}


def architecture_of(model):
    return next(name for name, architecture in ARCHITECTURE_CLASSES.items() if type(model) is architecture)


def textbook(model, features):
    """Return the outputs of a population's model, [B, P, ...], computed as above."""
    outputs, activations = [], []
    for i, task in enumerate(model.tasks):
        inputs, rule = (tf.convert_to_tensor(features[name])[:, i] for name in ("inputs", "rule"))
        one_hot = tf.one_hot(rule, task.num_rules, dtype=tf.float64)
        form, router = ARCHITECTURES[architecture_of(model)], ROUTERS.get(model.variant, by_itself)
        output, p = form(Member(model, i), router, inputs, one_hot)
        outputs.append(output if task.target_width else output[..., 0])
        activations.append(p)
    return {"target": tf.stack(outputs, axis=1), "activation": tf.stack(activations, axis=1)}
