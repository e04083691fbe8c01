"""The labels of every stream against a plain NumPy labeller, written from the equations."""

import numpy as np
import pytest

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
