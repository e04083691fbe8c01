"""FiLM, MAC and Vector-NMN: sizes as published, and the networks' equations in plain NumPy."""

import keras
import numpy as np
import pytest

import modtf

WIDTH, IMAGES = 2, 3
TASK = modtf.Task("sqoop", side=32)
RULES = TASK.num_rules
#: registered parameters of the released networks, run at width 64; rows and width of their embedding. The two
#: biases of PyTorch's LSTM are one
REGISTERED = {
    "film": (5_215_354, 47, 200),
    "mac": (1_022_040 - 2 * 4 * 64, 47, 300),
    "vector_nmn": (1_947_714, 100, 128),
}
STEM = 9 * 3 * 64 + 4 * 9 * 64 * 64 + 9 * 64 * 128 + 2 * (5 * 64 + 128)


def built(name, width=WIDTH, seed=0, task=TASK, variant="monolithic", **options):
    return modtf.build(task, variant, width, seed, architecture=name, **options)


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    rule = np.stack(
        [*rng.integers(0, RULES - 4, [2, IMAGES]), rng.integers(RULES - 4, RULES, IMAGES)], axis=1
    )
    return {
        "inputs": rng.uniform(size=[IMAGES, *TASK.token_shape]).astype(np.float32),
        "rule": rule.astype(np.int32),
    }


@pytest.mark.parametrize("name", REGISTERED)
def test_published_parameters(name):
    registered, rows, width = REGISTERED[name]
    expected = registered - (rows - RULES) * width  # no rows for words that no question uses
    assert built(name, 64).num_parameters == expected
    if name == "vector_nmn":
        assert built(name, 64, encoder="group").num_parameters == expected + STEM


def numbers(layer):
    return [np.asarray(weight, np.float64) for weight in layer.get_weights()]


class Plain:
    """NumPy layers in float64 that count multiplications for one image."""

    def __init__(self):
        self.macs = 0

    def dense(self, x, layer):
        kernel, *bias = numbers(layer)
        self.macs += kernel.size * x[..., 0].size // IMAGES
        return x @ kernel + sum(bias)

    def conv(self, x, layer):
        kernel, *bias = numbers(layer)
        around, (rows, columns) = len(kernel) // 2, x.shape[1:3]
        x = np.pad(x, [(0, 0), (around, around), (around, around), (0, 0)])
        steps = range(len(kernel))
        shifted = [x[:, i : i + rows, j : j + columns] @ kernel[i, j] for i in steps for j in steps]
        self.macs += kernel.size * rows * columns * (len(x) // IMAGES)
        return sum(shifted) + sum(bias)

    def stem(self, x, stem):
        parts = [layer for layer in stem.layers if layer.weights]
        for number, (conv, bn) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
            x = np.maximum(norm(self.conv(x, conv), bn), 0)
            if number in (1, 3):
                x = x.reshape(len(x), x.shape[1] // 2, 2, x.shape[2] // 2, 2, -1).max(axis=(2, 4))
        return x

    def classify(self, x, model, bn=True):
        named = {layer.name: layer for layer in model.classifier.layers}
        x = self.dense(x, named["classifier_first"])
        x = norm(x, named["classifier_norm"]) if bn else x
        return self.dense(np.maximum(x, 0), named["classifier_last"])

    def gates(self, x, state, cell, bias):
        kernel, recurrent = np.float64(cell.kernel), np.float64(cell.recurrent_kernel)
        self.macs += kernel.size + recurrent.size
        return x @ kernel + bias[0], state @ recurrent + bias[-1]


def norm(x, layer):
    *affine, mean, variance = numbers(layer)
    scale, shift = affine or (1.0, 0.0)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + shift


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)


def place(x):
    """Append the column's and the row's coordinate."""
    both = np.zeros([*x.shape[:3], 2])
    both[..., 0], both[..., 1] = np.linspace(-1, 1, x.shape[2]), np.linspace(-1, 1, x.shape[1])[:, None]
    return np.concatenate([x, both], axis=-1)


def film(model, images, words, plain):
    state, cell, bias = np.zeros([IMAGES, 16 * WIDTH]), model.gru.cell, np.float64(model.gru.cell.bias)
    for word in np.moveaxis(words, 1, 0):
        (xz, xr, xn), (hz, hr, hn) = (np.split(g, 3, 1) for g in plain.gates(word, state, cell, bias))
        z = sigmoid(xz + hz)
        state = z * state + (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn)
    both = plain.dense(state, model.of_question).reshape(IMAGES, 4, 2, 1, 1, WIDTH)
    x = plain.stem(images, model.stem)
    for number, block in enumerate(model.residual):
        x = np.maximum(plain.conv(place(x), block.project), 0)
        y = norm(plain.conv(x, block.conv), block.norm)
        x = x + np.maximum((1 + both[:, number, 0]) * y + both[:, number, 1], 0)
    x = np.maximum(norm(plain.conv(place(x), model.project), model.norm), 0).max(axis=(1, 2))
    return plain.classify(x, model)


def lstm(words, layer, plain):
    states, memory, bias = [np.zeros([IMAGES, WIDTH])], 0.0, [np.float64(layer.cell.bias), 0.0]
    for word in np.moveaxis(words, 1, 0):
        i, f, g, o = np.split(sum(plain.gates(word, states[-1], layer.cell, bias)), 4, axis=1)
        memory = sigmoid(f) * memory + sigmoid(i) * np.tanh(g)
        states.append(sigmoid(o) * np.tanh(memory))
    return np.stack(states[1:], axis=1)


def mac(model, images, words, plain):
    """Hudson and Manning's equations c1 to c3, r1 to r4 and w1, without the optional parts."""
    onward = lstm(words, model.onward, plain)
    context = np.concatenate([onward, lstm(words[:, ::-1], model.backward, plain)[:, ::-1]], axis=-1)
    last = np.concatenate([context[:, -1, :WIDTH], context[:, 0, WIDTH:]], axis=-1)
    image = plain.stem(place(images), model.stem)
    image = image.reshape(IMAGES, -1, image.shape[-1])
    question = np.tanh(plain.dense(last, model.question))
    memory, seen = np.repeat(np.float64(model.memory), IMAGES, axis=0), plain.dense(image, model.of_image)
    for turn in model.turned:
        scores = plain.dense(context * plain.dense(question, turn)[:, None], model.word_score)
        control = (softmax(scores) * context).sum(axis=1)
        both = np.concatenate([seen * plain.dense(memory, model.of_memory)[:, None], seen], axis=-1)
        both = np.maximum(plain.dense(both, model.both), 0)
        scores = plain.dense(np.maximum(control[:, None] * both, 0), model.place_score)
        read = (softmax(scores) * image).sum(axis=1)
        memory = plain.dense(np.concatenate([read, memory], axis=-1), model.write)
    # The model computes this half once.
    plain.macs -= image.shape[1] * 4 * WIDTH * WIDTH * (len(model.turned) - 1)
    return plain.classify(np.concatenate([memory, plain.dense(last, model.of_question)], -1), model, bn=False)


def vector_nmn(model, images, words, plain):
    def module(x, *asked):
        given = np.concatenate(asked, axis=-1)
        for block in (0, 2):
            h = x
            for n in (block, block + 1):
                inner = np.maximum(plain.dense(given, model.module.first[n]), 0)
                gamma, beta = np.split(plain.dense(inner, model.module.second[n]), 2, axis=-1)
                h = plain.conv((2 * np.tanh(gamma) + 1)[:, None, None] * h + beta[:, None, None],
                               model.module.convs[n])  # fmt: skip
                h = np.maximum(h + (x if n > block else 0), 0)
            x = h
        return x.max(axis=(1, 2))

    seen = [plain.stem(images, stem) for stem in model.stems]
    none = np.zeros([IMAGES, 2 * WIDTH])
    left, right = (module(seen[0], words[:, n], none, none) for n in (0, 2))
    return plain.classify(module(seen[-1], words[:, 1], left, right), model)


@pytest.mark.parametrize(
    ("name", "equations", "options"),
    [
        ("film", film, {}),
        ("mac", mac, {}),
        ("vector_nmn", vector_nmn, {}),
        ("vector_nmn", vector_nmn, {"encoder": "group"}),
    ],
)
def test_a_network_is_what_its_equations_say(name, equations, options, features, tmp_path):
    """Its answers and multiplications; those of a saved copy."""
    model, plain, rng = built(name, **options), Plain(), np.random.default_rng(1)
    for weight in model.weights:  # statistics of batch normalisation, and biases that start from 0
        if len(weight.shape) == 1 and "seed" not in weight.path:
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
    embedding = model.names if name == "vector_nmn" else model.words
    words = numbers(embedding)[0][features["rule"][:, [0, 2, 1]]]
    expected = equations(model, np.float64(features["inputs"]), words, plain)
    found = np.array(model(features)["target"])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert np.ptp(expected[:, 0]) > 1e-4 * np.abs(expected).max(), "the answers depend on the question"
    assert model.forward_flops() == 2 * plain.macs
    model.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(
        keras.saving.load_model(tmp_path / "model.keras")(features)["target"], found
    )


@pytest.mark.parametrize("name", REGISTERED)
def test_weights_follow_from_the_seed_and_statistics_from_training(name, features):
    one, same, other = (built(name, seed=seed) for seed in (0, 0, 1))
    weights, second, third = (
        [np.array(w) for w in model.trainable_variables] for model in (one, same, other)
    )
    assert all(np.array_equal(a, b) for a, b in zip(weights, second, strict=True))
    drawn = [(a, c) for a, c in zip(weights, third, strict=True) if np.ptp(a)]
    assert all((a != c).all() for a, c in drawn)
    assert len({a.tobytes() for a, _ in drawn}) == len(drawn), "no two weights start from the same numbers"
    for dtype, tolerance in (("float64", 1e-5), ("mixed_bfloat16", 0.1)):
        first, other = (np.array(model(features)["target"]) for model in (same, built(name, dtype=dtype)))
        np.testing.assert_allclose(first, other, rtol=0, atol=tolerance * np.abs(first).max())
    for training in (False, True):
        before = [np.array(v) for v in one.non_trainable_variables if "moving" in v.path]
        one(features, training=training)
        after = [np.array(v) for v in one.non_trainable_variables if "moving" in v.path]
        assert any((a != b).any() for a, b in zip(before, after, strict=True)) is training


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "film",
            {"task": modtf.Task("mlp")},
            r"FiLMNetwork answers a question.*with inputs \(2,\) and rules \(\)",
        ),
        (
            "mac",
            {"task": modtf.Task("vqa_mnist", question="comparison")},
            r"inputs \(2, 28, 28, 3\).*'sqoop'",
        ),
        ("mac", {"variant": "modular"}, "variant='modular', .* no routed layer. Choose variant='monolithic'"),
        ("vector_nmn", {"router": {"modules": 3}}, "router={'modules': 3}: VectorNMN has no routed layer"),
        ("film", {"blocks": 0}, "blocks=0 is not valid; expected an integer of at least 1"),
        ("mac", {"cells": 2.5}, "cells=2.5 is not valid"),
        ("vector_nmn", {"encoder": "sub"}, "encoder='sub' is not known; expected one of all, group"),
    ],
)
def test_bad_input(name, changes, message):
    with pytest.raises(ValueError, match=message):
        built(name, **changes)
