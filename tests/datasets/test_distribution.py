"""Draws have the distributions that the tasks name. Seeds are fixed: these tests never flicker."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from modtf.datasets import device_ops, host_ops, philox
from modtf.datasets.random import choose_rule, standard_normal, unit_vector
from modtf.tasks.task import SPLITS

P = 1e-4  # probability of a false alarm if the seed were not fixed


def normal_and_angles(task, inputs):
    """Return the `inputs` that should be N(0, 1), one column per position, and angles of unit vectors."""
    if dict(task.options).get("search") != "v2":
        return inputs.reshape(len(inputs), -1), None
    fields = inputs.reshape(-1, 6)
    first, second = fields[:, :2], fields[:, 2:4]
    for key in (first, second):
        np.testing.assert_allclose((key**2).sum(1), 1.0, atol=1e-6)
    angles = np.stack([np.arctan2(key[:, 1], key[:, 0]) for key in (first, second)], axis=1)
    return fields[:, 4:], angles


@pytest.mark.parametrize("split", ["train", "test"])
def test_inputs(draw, any_family, split):
    [(inputs, _, _)] = draw(any_family, 1, batch_size=2000, split=split)
    normal, angles = normal_and_angles(any_family, inputs)
    every = normal.ravel().astype(np.float64)
    assert stats.kstest(every, "norm").pvalue > P
    assert abs(every.mean()) < 4.5 / np.sqrt(every.size)
    assert abs(every.var() - 1) < 4.5 * np.sqrt(2 / every.size)
    for bound in (2.0, 3.0):
        expected = 2 * stats.norm.sf(bound) * every.size
        assert abs((np.abs(every) > bound).sum() - expected) < 4.5 * np.sqrt(expected)
    places = normal[:, :40].astype(np.float64)
    correlation = np.corrcoef(places.T) - np.eye(places.shape[1])
    assert np.abs(correlation).max() < 5 / np.sqrt(len(places))
    if angles is not None:
        assert stats.kstest(angles.ravel(), "uniform", args=(-np.pi, 2 * np.pi)).pvalue > P
        assert abs(np.corrcoef(angles.T)[0, 1]) < 5 / np.sqrt(len(angles))


@pytest.mark.parametrize("num_rules", [2, 32])
def test_rules_are_uniform_and_independent_of_inputs(draw, any_family, num_rules):
    [(inputs, rule, _)] = draw(any_family.replace(num_rules=num_rules), 1, batch_size=2000)
    assert stats.chisquare(np.bincount(rule.ravel(), minlength=num_rules)).pvalue > P
    first = rule.reshape(2000, -1)[:, 0]
    places = inputs.reshape(2000, -1)[:, :30]
    correlation = [np.corrcoef(first, place)[0, 1] for place in places.T]
    assert np.abs(correlation).max() < 5 / np.sqrt(2000)


@pytest.mark.parametrize("batch_size", [128, 2000])  # many steps in a block, and one where tokens are many
def test_rule_probs_by_step(draw, any_family, batch_size):
    probs = np.array([[1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0, 0.1, 0.9]])
    made = draw(any_family, 5, batch_size=batch_size, rule_probs=probs, start_step=7)
    for step, (_, rule, _) in enumerate(made, start=7):
        expected = probs[step % 3]
        counts = np.bincount(rule.ravel(), minlength=5)
        seen = expected > 0
        assert counts[~seen].sum() == 0
        assert seen.sum() == 1 or stats.chisquare(counts[seen], rule.size * expected[seen]).pvalue > P


def test_labels(draw, any_task):
    [(_, _, target)] = draw(any_task.replace(data_seed=0), 1, batch_size=2000)
    if any_task.setting == "classification":
        assert set(np.unique(target)) == {0.0, 1.0}
        assert abs(target.mean() - 0.5) < 0.03
    else:
        assert np.isfinite(target).all()
        assert abs(target.mean()) < 5 * target.std() / np.sqrt(len(target))


def test_streams_share_no_number(draw, any_family):
    """Splits, seeds, tasks, lengths and steps: no example occurs twice and nothing is correlated."""
    options = [{"split": split} for split in SPLITS] + [{"seed": 1}]
    made = [batch for option in options for batch in draw(any_family, 2, batch_size=500, **option)]
    made += draw(any_family.replace(data_seed=2), 1, batch_size=500)
    flat = np.stack([inputs.reshape(500, -1) for inputs, _, _ in made])
    rows = flat.reshape(-1, flat.shape[-1])
    assert len(np.unique(rows, axis=0)) == len(rows)
    correlation = np.corrcoef(flat.reshape(len(made), -1)) - np.eye(len(made))
    assert np.abs(correlation).max() < 5 / np.sqrt(flat[0].size)
    rules = np.stack([rule.ravel() for _, rule, _ in made])
    correlation = np.corrcoef(rules) - np.eye(len(made))
    assert np.abs(correlation).max() < 5 / np.sqrt(rules[0].size)


def test_a_length_is_a_stream_of_its_own(draw, any_family):
    if any_family.is_sequence:
        long, short = (draw(any_family, 1, batch_size=50, seq_len=n)[0][0] for n in (11, 10))
        assert not np.isin(short[:, 0, -2:], long[..., -2:]).all(1).any()


KEYS, INDEX, PLACES = (-(2**63) + 5, 3), (0, 70_000), (0, 3)


@pytest.mark.parametrize("ops", [device_ops, host_ops])
@pytest.mark.parametrize(("count", "dtype"), [(8, "float32"), (7, "float32"), (3, "float64")])
def test_the_numbers_are_those_of_tensorflow(ops, count, dtype):
    @tf.function(jit_compile=ops is device_ops, autograph=False)
    def draw(index, start):
        keys = np.array([philox.words(key) for key in KEYS])
        scrambled = philox.scramble(device_ops, keys[:, None], index)
        return philox.uniforms(device_ops, scrambled, start, count, dtype)

    found = draw(tf.constant(INDEX), tf.constant([place * count for place in PLACES])).numpy()
    for k, key in enumerate(KEYS):
        for i, (index, place) in enumerate(zip(INDEX, PLACES, strict=True)):
            seed = tf.constant(key, tf.int64), tf.constant(index, tf.int64)
            numbers = host_ops.uniforms(*seed, [4, count], tf.as_dtype(dtype)).numpy()
            np.testing.assert_array_equal(found[k, i], numbers[place])


def test_the_published_vectors():
    """The vectors of the generator's authors: ten rounds on zeros, on ones, and on digits of pi."""
    known = {
        (0,) * 6: "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        (0xFFFFFFFF,) * 6: "408f276d 41c83b0e a20bc7c6 6d5451fd",
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0):
            "d16cfe09 94fdcceb 5001e420 24126ea1",
    }  # fmt: skip
    for words, expected in known.items():
        tensors = [tf.constant(np.uint32(word)) for word in words]
        found = tf.function(philox.philox, jit_compile=True)(device_ops, tensors[:4], tensors[4:])
        assert " ".join(f"{int(word):08x}" for word in found) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_edges_of_the_unit_interval(dtype):
    last = np.nextafter(dtype(1), dtype(0))
    edges = np.array([0.0, 0.5, last, last], dtype)
    assert np.isfinite(standard_normal(host_ops, edges)).all()
    for num_rules in (2, 3, 7, 32):
        rule = choose_rule(host_ops, edges, num_rules, None).numpy()
        assert rule[0] == 0
        assert rule[-1] == num_rules - 1
    assert choose_rule(host_ops, edges, 3, np.array([0.0, 0.5])).numpy().tolist() == [1, 2, 2, 2]
    cosine, sine = unit_vector(host_ops, edges)
    np.testing.assert_allclose(np.square(cosine) + np.square(sine), 1.0, atol=1e-6)


WIDTH = 32


def label_mlp(task, inputs, rule):
    rng = np.random.RandomState(task.data_seed)
    alpha, beta = rng.randn(task.num_rules), rng.randn(task.num_rules)
    return np.array([alpha[c] * x[0] + beta[c] * x[1] for x, c in zip(inputs, rule, strict=True)])


def nearest(search, keys, n):
    """The index of the token whose key is nearest to that of token n, which is not its own nearest."""
    best, best_distance = -1, np.inf
    for i in range(len(keys)):
        distance = np.abs(keys[n] - keys[i]).sum() if search == "v1" else -np.dot(keys[n], keys[i])
        if i != n and distance < best_distance:
            best, best_distance = i, distance
    return best


def label_mha(task, inputs, rule):
    rng = np.random.RandomState(task.data_seed)
    alpha, beta = rng.randn(task.num_rules), rng.randn(task.num_rules)
    k = {"v1": 1, "v2": 2}[task.search]
    outputs = np.zeros(rule.shape)
    for b, sequence in enumerate(inputs):
        for n, c in enumerate(rule[b]):
            own_rule = sequence.reshape(len(sequence), task.num_rules, 2 * k + 2)[:, c]
            s = nearest(task.search, own_rule[:, :k], n)
            other = nearest(task.search, own_rule[:, k : 2 * k], n)
            outputs[b, n] = alpha[c] * own_rule[s, 2 * k] + beta[c] * own_rule[other, 2 * k + 1]
    return outputs


def label_rnn(task, inputs, rule):
    rng = np.random.RandomState(task.data_seed)
    A = rng.randn(task.num_rules, 1, WIDTH, WIDTH) / np.sqrt(WIDTH)
    B = rng.randn(task.num_rules, WIDTH, WIDTH) / np.sqrt(WIDTH)
    w = rng.randn(WIDTH, 1)
    outputs = []
    for sequence, rules in zip(inputs, rule, strict=True):
        state = np.zeros(WIDTH)
        for x, c in zip(sequence, rules, strict=True):
            state = state @ A[c, 0] + x @ B[c]
            outputs.append(state if task.target == "state" else (state @ w)[0])
    return np.reshape(outputs, [*rule.shape, -1] if task.target == "state" else rule.shape)


ORACLES = {"mlp": label_mlp, "mha": label_mha, "rnn": label_rnn}  # a new family adds its own here


def check(task, inputs, rule, target):
    y = ORACLES[task.arch](task, inputs.astype(np.float64), rule)
    if task.setting == "classification":
        clear = np.abs(y) > 1e-5  # either label is right where rounding decides
        assert clear.mean() > 0.99
        np.testing.assert_array_equal(target[clear], (y >= 0)[clear])
    else:
        np.testing.assert_allclose(target, y, rtol=2e-5, atol=2e-5 * max(1, np.abs(y).max()))


@pytest.mark.parametrize(("num_rules", "split", "seq_len"), [(5, "train", 30), (2, "test", 3)])
def test_stream_of_a_population(draw, any_task, num_rules, split, seq_len):
    tasks = [any_task.replace(num_rules=num_rules, data_seed=data_seed) for data_seed in (0, 3)]
    options = {"split": split, "scale": 2.0, "seq_len": seq_len if any_task.is_sequence else None}
    [(inputs, rule, target)] = draw(tasks, 1, batch_size=8, seed=[4, 5], **options)
    assert inputs.dtype == target.dtype == np.float32
    assert rule.dtype == np.int32
    for i, task in enumerate(tasks):
        check(task, inputs[:, i], rule[:, i], target[:, i])


@pytest.mark.parametrize("num_rules", [2, 5])
def test_one_member_and_its_shapes(draw, any_task, num_rules):
    task = any_task.replace(num_rules=num_rules)
    [(inputs, rule, target)] = draw(task, 1, batch_size=7)
    tokens = (10,) if task.is_sequence else ()
    width = () if task.target_width is None else (task.target_width,)
    assert inputs.shape == (7, *tokens, task.token_width)
    assert rule.shape == (7, *tokens)
    assert target.shape == (7, *tokens, *width)
    check(task, inputs, rule, target)
