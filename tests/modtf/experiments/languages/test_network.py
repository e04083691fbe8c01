"""The language model against a plain NumPy forward pass, and its routers."""

from functools import cache

import numpy as np
import pytest

import modtf
from modtf.experiments.languages import network
from modtf.experiments.languages.laws import corpus_of
from modtf.experiments.languages.network import attend
from modtf.experiments.languages.routing import bits, rows_of
from modtf.metrics import load_variation

WIDTH, HEADS, LENGTH = 8, 2, 63
TASK = modtf.Task("languages", languages=3, vocabulary=24)


@cache
def batch(tasks, count=5, split="train", **how):
    return next(iter(modtf.stream(tasks, count, split, **how)))


def weights_of(model, member):
    """Return the weights of a member by name, "layer1_first/kernel"."""
    return {
        f"{layer.name}/{weight.name}": np.float64(weight.numpy()[member])
        for layer in model._flatten_layers()
        if layer is not model
        for weight in layer._trainable_variables
    }


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def forward(weights, words, rule, route, modules):
    """Return logits [N, V] and p of both layers [N, M] for one document, expert by expert."""

    def norm(x, name):
        x = x - x.mean(axis=1, keepdims=True)
        return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + 1e-5) * weights[f"{name}/scale"][:, 0]

    positions = np.minimum(np.arange(len(words)), LENGTH - 1)
    x = weights["embedding/kernel"].T[words] + weights["positions/kernel"].T[positions]
    if "language/kernel" in weights:
        x = x + weights["language/kernel"].T[rule]
    size, p = WIDTH // HEADS, {}
    for layer in ("layer1", "layer2"):
        read = norm(x, f"{layer}_norm")
        query, key, value = np.split(read @ weights[f"{layer}_attention/kernel"].T, 3, axis=1)
        heads = []
        for head in range(HEADS):
            own = slice(head * size, (head + 1) * size)
            scores = query[:, own] @ key[:, own].T / np.sqrt(size)
            scores[np.triu_indices(len(words), 1)] = -np.inf
            heads.append(softmax(scores) @ value[:, own])
        x = x + np.concatenate(heads, axis=1) @ weights[f"{layer}_out/kernel"].T
        read = norm(x, f"{layer}_expert_norm")
        p[layer] = route(layer, read)
        first = read @ weights[f"{layer}_first/kernel"].T + weights[f"{layer}_first/bias"][:, 0]
        hidden = np.split(np.maximum(first, 0), modules, axis=1)
        kernels = np.split(weights[f"{layer}_last/kernel"], modules, axis=1)
        for m in range(modules):
            answer = hidden[m] @ kernels[m].T + weights[f"{layer}_last/bias"][:, m]
            x = x + p[layer][:, m : m + 1] * answer
    return norm(x, "norm") @ weights["head/kernel"].T + weights["head/bias"][:, 0], p


@pytest.mark.parametrize(
    "variant", ["modular", "gt_modular", "modular_op", "monolithic", "monolithic_told", "hash"]
)
def test_a_plain_forward_pass(variant):
    """Two members, and a document longer than those of training."""
    tasks = (TASK, TASK.replace(data_seed=1))
    model = modtf.build(tasks, variant, WIDTH, seed=[4, 5])
    features, _ = batch(tasks, 2, "test", condition="long")
    outputs = model(features)
    modules = model.num_modules
    for member, document in ((0, 1), (1, 0)):
        weights = weights_of(model, member)
        words, rule = (features[name].numpy()[document, member] for name in ("inputs", "rule"))

        def route(layer, read, weights=weights, words=words, rule=rule, member=member):
            if variant == "modular":
                return softmax(read @ weights[f"{layer}_scores/kernel"].T)
            if variant == "modular_op":
                return softmax(np.eye(3)[rule] @ weights[f"router_{layer}_logits/kernel"].T)
            if variant == "hash":
                return np.asarray(model.routers[layer].table.numpy()[member], np.float64)[:, words].T
            return np.eye(3)[rule] if variant == "gt_modular" else np.ones([len(words), 1])

        logits, p = forward(weights, words, rule, route, modules)
        np.testing.assert_allclose(outputs["target"][document, member], logits, atol=2e-5)
        for layer, expected in p.items():
            np.testing.assert_allclose(outputs[f"activation_{layer}"][document, member], expected, atol=1e-5)


def test_parameters():
    """At the default size: 48,352 without the routers, and 18,784 for one expert, less one position."""
    task = modtf.Task("languages")
    counts = {name: modtf.build(task, name, 32).num_parameters for name in ("gt_modular", "modular")}
    counts["one"] = modtf.build(task, "monolithic", 32).num_parameters
    assert counts == {"gt_modular": 48_320, "modular": 48_320 + 2 * 256, "one": 48_320 - 14 * 2_112}
    total = modtf.build(task, "monolithic_total", 32).num_parameters
    assert total == 48_320 - 2 * 7 * 32  # one bias in place of eight
    assert modtf.build(task, "monolithic_told", 32).num_parameters == counts["one"] + 8 * 32


@pytest.mark.parametrize("variant", ["modular", "switch", "top_2", "hash", "uniform"])
def test_the_language_is_hidden(variant):
    """No output depends on the rule, except for the routers that see it."""
    model = modtf.build(TASK, variant, WIDTH)
    features, _ = batch(TASK)
    other = {**features, "rule": (features["rule"] + 1) % 3}
    for name, value in model(features).items():
        np.testing.assert_array_equal(value, model(other)[name], err_msg=name)
    for told in ("modular_op", "monolithic_told"):
        model = modtf.build(TASK, told, WIDTH)
        assert np.abs(model(features)["target"] - model(other)["target"]).max() > 1e-3


def test_fixed_routing_follows_the_language_also_when_it_is_sampled():
    """Each layer draws its own tenth of wrong experts; half of each weight on wrong experts is a row."""
    features, _ = batch(TASK, 64)
    right = np.eye(3)[features["rule"].numpy()]
    drawn = modtf.build(TASK, "clamped", WIDTH, router={"amount": 0.1, "hard": True})(features)
    wrong = [
        (drawn[f"activation_{layer}"].numpy() * (1 - right)).sum(axis=2) for layer in ("layer1", "layer2")
    ]
    assert [set(np.unique(each)) for each in wrong] == [{0, 1}, {0, 1}]
    assert np.mean(wrong, axis=(1, 2)) == pytest.approx([0.1, 0.1], abs=0.02)
    assert np.mean(wrong[0] * wrong[1]) == pytest.approx(0.01, abs=0.006)
    mixed = modtf.build(TASK, "clamped", WIDTH, router={"amount": 0.5})(features)["activation_layer1"]
    np.testing.assert_allclose(mixed, 0.5 * right + 0.25 * (1 - right), atol=1e-6)


def test_no_position_sees_later_words():
    model = modtf.build(TASK, "modular", WIDTH)
    features, _ = batch(TASK)
    words = features["inputs"].numpy()
    words[:, 40:] = (words[:, 40:] + 1) % 24
    changed = model({**features, "inputs": words})["target"]
    difference = np.abs(model(features)["target"] - changed).max(axis=(0, 2))
    assert difference[:40].max() < 1e-5 < difference[40:].min()


def test_the_loss_is_the_exact_excess():
    """The mean over positions 16 to 62 of KL(law, prediction); in training the cross-entropy of the word."""
    model, sizes = modtf.build(TASK, "modular", WIDTH), modtf.Evaluation(batches=1, batch_size=16, tokens=999)
    features, _ = batch(TASK, 16, "test")
    words, rule = features["inputs"].numpy(), features["rule"].numpy()
    law, predicted = corpus_of(TASK).rows[rule, words], softmax(np.float64(model(features)["target"]))
    excess = (law * np.log(law / predicted)).sum(axis=2)
    scores = modtf.evaluate(model, TASK, evaluation=sizes)
    np.testing.assert_allclose(scores["loss"], excess[:, 16:].mean(), rtol=1e-5)
    features, target = batch(TASK, 16)
    from modtf.evaluation.elementwise import categorical_cross_entropy, divergence

    logits = model(features)["target"]
    expected = categorical_cross_entropy(target.numpy().argmax(axis=2), logits)
    np.testing.assert_allclose(divergence(target, logits), expected, atol=1e-5)


def test_information_in_routing():
    """Counted by hand from the outputs, for the first batch of an evaluation."""
    sizes = modtf.Evaluation(batches=1, batch_size=32, tokens=999, conditions=())
    tasks = [TASK, TASK.replace(data_seed=1)]
    model = modtf.build(tasks, "top_2_shared", WIDTH, seed=[0, 1])
    scores = modtf.evaluate(model, tasks, evaluation=sizes)
    features, _ = batch(model.population.with_seed(0), 32, "test")
    p = model(features)["activation_layer2"].numpy()[:, 1, :, 1:]  # without the shared expert
    for name, labels, count in (("language", "rule", 3), ("word", "inputs", 24)):
        one_hot = np.eye(count)[features[labels].numpy()[:, 1]]
        joint = np.einsum("bnl,bnm->lm", one_hot, p)
        joint /= joint.sum()
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        expected = sum(j * np.log2(j / a) for j, a in zip(joint.flat, apart.flat, strict=True) if j > 0)
        np.testing.assert_allclose(scores[1][f"{name}_bits_layer2"], expected, rtol=1e-3)
    load = p.sum(axis=(0, 1))
    np.testing.assert_allclose(scores[1]["load_cv_layer2"], load.std() / load.mean(), rtol=1e-3)
    assert scores[1]["active_experts_layer2"] == pytest.approx(3)


def test_bits_of_known_routers():
    assert bits(np.eye(8)) == 3
    assert bits(np.ones([4, 8])) == 0
    counts = np.eye(4)[None, None].repeat(2, 1) * 5
    state = {"language": counts, "word": np.ones([1, 2, 6, 4]), "active": [20]}
    rows = rows_of("layer1", {"iid": state})
    assert rows["language_bits", "iid", "layer1"] == [2]
    assert rows["word_bits", "iid", "layer1"] == pytest.approx([0], abs=1e-9)
    assert rows["active_experts", "iid", "layer1"] == [1]


def test_dead_and_shared_experts():
    """An expert that nobody uses is part of the load; a shared one is not, also if a language is missing."""
    counts = np.array([[5.0, 5, 0, 0], [10, 0, 0, 0]])
    state = {"language": counts[None, None].repeat(2, 1), "word": np.ones([1, 2, 6, 4]), "active": [20]}
    load = rows_of("layer1", {"iid": state})["load_cv", "iid", "layer1"]
    np.testing.assert_allclose(load, load_variation(counts / 10))
    shared = np.array([[5.0, 5, 0], [0, 0, 0], [5, 0, 5]])  # expert 0; no token of language 1
    state = {"language": shared[None, None].repeat(2, 1), "word": np.ones([1, 2, 6, 3]), "active": [20]}
    rows = rows_of("layer1", {"iid": state})
    assert (rows["language_bits", "iid", "layer1"], rows["load_cv", "iid", "layer1"]) == ([1], [0])


@pytest.mark.parametrize(
    ("variant", "options", "message"),
    [
        ("expert_choice", {}, "compares the tokens of a batch, so it would see later words"),
        ("modular", {"hidden": 0}, "hidden=0 is not valid; expected an integer of at least 1"),
        ("monolithic", {"told": "no"}, "told='no' is not known; expected one of False, True"),
        ("modular", {"total": True}, "total=True is for a network without experts; 'modular' has 3"),
    ],
)
def test_bad_options(variant, options, message):
    with pytest.raises(ValueError, match=message):
        modtf.build(TASK, variant, WIDTH, **options)


def test_sums_of_attention_stay_in_float32(monkeypatch):
    model = modtf.build(TASK, "modular", WIDTH, dtype="mixed_bfloat16")
    seen: set[str] = set()

    def attended(*heads):
        seen.update(head.dtype.name for head in heads)
        return attend(*heads)

    monkeypatch.setattr(network, "attend", attended)
    model(batch(TASK)[0])
    assert seen == {"float32"}
