"""The options of `modtf.tasks.families.varied`: each against its definition, computed anew in NumPy."""

import numpy as np
import pytest
from scipy import stats

from modtf import Cell, Task
from modtf.datasets.device import DeviceStream
from modtf.datasets.families.variations import input_bits
from modtf.tasks.families.varied import zipf

ARCHS = ("mlp", "mha", "rnn")
P = 1e-4  # probability of a false alarm if the seed were not fixed
#: family, task options and condition -> the frequencies of rules 0, 1, 2
FREQUENCIES = [
    ("mlp", {"zipf": 1.0}, "iid", [6 / 11, 3 / 11, 2 / 11]),
    ("mha", {"zipf": 2.0}, "scale2", [36 / 49, 9 / 49, 4 / 49]),
    ("rnn", {"zipf": 1.0}, "reversed_frequencies", [2 / 11, 3 / 11, 6 / 11]),
    ("mlp", {}, "reversed_frequencies", [2 / 11, 3 / 11, 6 / 11]),
]


@pytest.mark.parametrize(("arch", "options", "condition", "expected"), FREQUENCIES)
def test_frequencies(draw, arch, options, condition, expected):
    task = Task(arch, num_rules=3, **options)
    given = {"batch_size": 2000, "split": "test", **task.condition(condition).stream_options()}
    [(inputs, rule, _)] = draw(task, 1, **given)
    assert stats.chisquare(np.bincount(rule.ravel()), rule.size * np.array(expected)).pvalue > P
    given.pop("options", None)
    np.testing.assert_array_equal(inputs, draw(Task(arch, num_rules=3), 1, **given)[0][0])  # paired
    equal = np.full(3, 1 / 3)
    [(_, rule, _)] = draw(task, 1, batch_size=2000, rule_probs=equal)
    assert stats.chisquare(np.bincount(rule.ravel())).pvalue > P, "the stream's own frequencies come first"


@pytest.mark.parametrize(
    ("arch", "batch_size"), [("mlp", 12), pytest.param("mha", 8, marks=pytest.mark.slow), ("rnn", 8)]
)
def test_a_finite_set(draw, arch, batch_size):
    """Every epoch holds the same examples in an order of its own, also from the middle of it."""
    task = Task(arch, num_rules=3, num_train=24, noise=0.5)
    made = draw(task, 72 // batch_size, batch_size=batch_size, seed=3)
    rows = np.concatenate([np.c_[x.reshape(len(x), -1), y.reshape(len(y), -1)] for x, _, y in made])
    epochs = [sorted(map(tuple, rows[n : n + 24])) for n in (0, 24, 48)]
    assert epochs[0] == epochs[1] == epochs[2], "labels keep their noise"
    assert len(set(epochs[0])) == 24
    assert not np.array_equal(rows[:24], rows[24:48])
    np.testing.assert_equal(draw(task, 2, batch_size=batch_size, seed=3, start_step=1), made[1:3])
    other = draw(task, 1, batch_size=batch_size, seed=4)[0][0]
    assert not np.isin(other.reshape(batch_size, -1)[:, 0], rows[:, 0]).any()
    more = draw(task.replace(num_train=25), 25, batch_size=1, seed=3)
    found = {(*x.ravel().tolist(), *y.ravel().tolist()) for x, _, y in more}
    assert set(epochs[0]) < found, "a larger set holds the smaller one"
    endless = [draw(task.replace(num_train=n), 1, batch_size=8, split="test")[0] for n in (0, 24)]
    np.testing.assert_equal(*endless)


@pytest.mark.parametrize("arch", ["mlp", pytest.param("mha", marks=pytest.mark.slow), "rnn"])
@pytest.mark.parametrize("split", ["train", pytest.param("test", marks=pytest.mark.slow)])
def test_noise(draw, arch, split):
    """Labels alone change, by normal noise or by flips, which are the same whatever the batches."""
    for setting, noise in (("regression", 0.3), ("classification", 0.2)):
        clean, task = Task(arch, setting, num_rules=3), Task(arch, setting, num_rules=3, noise=noise)
        pairs = [draw(one, 1, batch_size=1000, split=split)[0] for one in (clean, task)]
        np.testing.assert_equal(*(pair[:2] for pair in pairs))
        change = (pairs[1][2] - pairs[0][2]).ravel().astype(np.float64)
        if setting == "regression":
            assert stats.kstest(change / noise, "norm").pvalue > P
        else:
            assert stats.binomtest(int(np.abs(change).sum()), change.size, noise).pvalue > P
        given = {"batch_size": 1000, "split": "test", "options": {"noise": 0.0}}
        np.testing.assert_equal(draw(task, 1, **given), draw(clean, 1, batch_size=1000, split="test"))


@pytest.mark.parametrize("arch", ["mha", "rnn"])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_withheld_pairs(draw, arch, exponent):
    """Some pairs never occur in training, and others as often as in the chain that they form."""
    task = Task(arch, num_rules=5, withheld=2, zipf=exponent)
    [(_, rule, _)] = draw(task, 1, batch_size=4000)
    first, second = rule[:, :-1].ravel(), rule[:, 1:].ravel()
    counts = np.zeros([5, 5])
    np.add.at(counts, (first, second), 1)
    allowed = np.array([[(other - rule) % 5 not in (1, 2) for other in range(5)] for rule in range(5)])
    assert counts[~allowed].sum() == 0
    expected = np.where(allowed, zipf(5, exponent), 0)
    expected *= counts.sum(axis=1, keepdims=True) / expected.sum(axis=1, keepdims=True)
    for row, wanted in zip(counts, expected, strict=True):
        assert stats.chisquare(row[wanted > 0], wanted[wanted > 0]).pvalue > P
    came = np.bincount(rule.ravel(), minlength=5) / rule.size
    np.testing.assert_allclose(came, task.family.rule_probs(task) or 0.2, atol=0.01)
    [(_, rule, _)] = draw(task, 1, batch_size=500, split="test", condition="withheld")
    assert set(np.unique((rule[:, 1:] - rule[:, :-1]) % 5)) == {1, 2}
    assert len(np.unique(rule)) == 5


@pytest.mark.parametrize("arch", ARCHS)
def test_shell(draw, arch):
    """Training lies inside a ball, half of it where it was; the condition lies outside."""
    task, plain = Task(arch, num_rules=3, shell=1.0), Task(arch, num_rules=3)
    given = {"batch_size": 2000, "split": "test"}
    inside, before = (draw(one, 1, **given)[0][0] for one in (task, plain))
    outside = draw(task, 1, condition="outside", **given)[0][0]
    norms = [np.linalg.norm(x.astype(np.float64), axis=-1) for x in (inside, before, outside)]
    radius = np.sqrt(stats.chi2.ppf(0.5, inside.shape[-1]))
    assert norms[0].max() <= radius + 1e-5
    assert norms[2].min() >= radius - 1e-5
    assert norms[2].max() <= max(2 * radius, norms[1].max()) + 1e-5
    kept = norms[1] <= radius
    np.testing.assert_array_equal(inside[kept], before[kept])
    np.testing.assert_array_equal(outside[~kept], before[~kept])
    cosines = (inside * before).sum(-1) / (norms[0] * norms[1])
    np.testing.assert_allclose(cosines, 1, atol=1e-4)


def test_zipf():
    np.testing.assert_allclose(zipf(3, 0), 1 / 3)
    np.testing.assert_allclose(zipf(4, 1.5), (np.arange(1, 5) ** -1.5) / (np.arange(1, 5) ** -1.5).sum())
    assert zipf(4, -1.5) == zipf(4, 1.5)[::-1]


@pytest.mark.parametrize("arch", ["mlp", "mha"])
def test_forms_of_rules(draw, arch):
    """Labels are what NumPy finds for the drawn networks, and for the five operations in turn."""
    for form in ("network", "operation"):
        task = Task(arch, num_rules=6, data_seed=3, form=form)
        [(inputs, rule, target)] = draw(task, 1, batch_size=40, split="test")
        x = inputs.astype(np.float64)
        pairs = x if arch == "mlp" else found_by_search(x, rule)
        if form == "network":
            rng = np.random.RandomState([3, 1])
            first, offset, second = rng.randn(6, 8, 2), rng.randn(6, 8), rng.randn(6, 8) / np.sqrt(8)
            hidden = np.tanh(np.einsum("...hi,...i->...h", first[rule], pairs) + offset[rule])
            expected = (second[rule] * hidden).sum(-1)
        else:
            rng = np.random.RandomState(3)
            a, b = (rng.randn(6)[rule] * pairs[..., n] for n in (0, 1))
            every = np.stack([a + b, a - b, a * b, np.minimum(a, b), np.maximum(a, b)], axis=-1)
            expected = np.take_along_axis(every, (rule % 5)[..., None], axis=-1)[..., 0]
        np.testing.assert_allclose(target, expected, atol=1e-5)
        [(_, _, on_host)] = draw(task, 1, batch_size=8)
        np.testing.assert_allclose(DeviceStream(task, 8).make(0)[1][0], on_host, atol=1e-4)


def found_by_search(x, rule):
    """The values v, v' of the nearest other tokens by q and by q' (search v1), under each token's rule."""
    fields = x.reshape(*x.shape[:2], -1, 4)
    pairs = np.zeros([*x.shape[:2], 2])
    for g, n, key in np.ndindex(pairs.shape):
        keys = fields[g, :, rule[g, n], key]
        distance = np.abs(keys - keys[n])
        distance[n] = np.inf
        pairs[g, n, key] = fields[g, distance.argmin(), rule[g, n], 2 + key]
    return pairs


@pytest.mark.parametrize("arch", ARCHS)
def test_inputs_that_carry_the_rule(draw, arch):
    task, plain = Task(arch, num_rules=3, data_seed=2, shift=0.5), Task(arch, num_rules=3, data_seed=2)
    (inputs, rule, target), (before, same, _) = (draw(one, 1, batch_size=8)[0] for one in (task, plain))
    np.testing.assert_array_equal(rule, same)
    centre = 0.5 * np.random.RandomState([2, 2]).randn(3, inputs.shape[-1])
    np.testing.assert_allclose(inputs - before, centre[rule], atol=1e-5)
    assert np.isfinite(target).all()


def test_the_bits_of_inputs():
    """Against a sum over a grid, for two rules and two inputs; 0 without a shift, log2 R with a large one."""
    task = Task("mlp", num_rules=2, shift=1.0)
    centre = np.random.RandomState([0, 2]).randn(2, 2)
    grid = np.stack(np.meshgrid(*[np.linspace(-8, 8, 321)] * 2), axis=-1)
    density = np.stack([np.exp(-((grid - c) ** 2).sum(-1) / 2) for c in centre]) / (2 * np.pi) * 0.05**2
    mixture = density.mean(axis=0)
    expected = (density * np.log2(density / mixture)).sum() / 2
    assert input_bits(task) == pytest.approx(expected, abs=0.01)
    assert input_bits(Task(num_rules=4)) == 0
    assert input_bits(Task("rnn", num_rules=4, shift=10.0)) == pytest.approx(2, abs=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"zipf": -1.0}, "zipf=-1.0 is not valid; expected a number between 0 and 4"),
        ({"zipf": float("nan")}, "zipf=nan"),
        ({"zipf": 4.0, "num_rules": 32}, "1 token in 1,134,888; expected at least 1 in 3,200"),
        ({"num_train": 2.5}, "num_train=2.5 is not valid; expected an integer"),
        ({"num_train": -1}, "num_train=-1"),
        ({"noise": -0.1}, "noise=-0.1 is not valid; expected a number between 0"),
        ({"noise": 0.5, "setting": "classification"}, "noise=0.5 flips half .* expected .* below 0.5"),
        ({"arch": "rnn", "withheld": 3, "num_rules": 4}, "withheld=3 of 4 rules .* expected at most 2"),
        ({"withheld": 1}, "withheld=1 has no meaning for arch='mlp'"),
        ({"arch": "mha", "search": "v2", "shell": 1.0}, "search=v1 alone"),
        ({"shell": 1.0, "shift": 1.0}, "cannot be set together"),
        ({"arch": "rnn", "form": "network"}, "form='network' has no meaning for arch='rnn'"),
        ({"hidden": 2}, "hidden=2 is not valid; expected an integer of at most 1"),
        ({"arch": "corruptions", "zipf": 1.0}, "zipf=1.0 has no meaning for arch='corruptions'"),
    ],
)
def test_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        Task(**options)


@pytest.mark.parametrize("condition", ["clean", "outside", "train_data"])
def test_conditions_belong_to_options(condition):
    with pytest.raises(ValueError, match=f"condition='{condition}' has a meaning only if"):
        Task(num_rules=3).condition(condition)


def test_too_few_examples_for_a_batch():
    task = Task(num_rules=3, num_train=100)
    with pytest.raises(
        ValueError, match="num_train=100 is less than batch_size=256; expected a batch or more"
    ):
        Cell(task, 8, "modular", ((0, 0),))


@pytest.mark.parametrize("arch", ARCHS)
def test_on_a_device(draw, arch):
    task = Task(arch, num_rules=4, num_train=20, noise=0.1, shell=1.0)
    task = task.replace(withheld=2) if task.is_sequence else task
    features, target = DeviceStream(task, 8).make(1, 3)
    for step, (inputs, rule, expected) in enumerate(draw(task, 3, batch_size=8, start_step=1)):
        np.testing.assert_array_equal(features["rule"][step], rule)
        np.testing.assert_allclose(features["inputs"][step], inputs, atol=1e-5)
        np.testing.assert_allclose(target[step], expected, atol=1e-4)


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ({"shell": 1.0}, {"support": "outer"}, "support='outer' is not"),
        ({}, {"support": "outside"}, "support='outside' needs a task with the option shell"),
        ({"arch": "mha", "withheld": 1}, {"pairs": "kept"}, "pairs='kept' is not"),
        ({"arch": "mha"}, {"pairs": "withheld"}, "needs a task with the option withheld"),
        ({}, {"zipf": float("nan")}, "zipf=nan is not valid"),
        ({}, {"zipf": "a"}, "zipf='a' is not valid"),
        ({}, {"noise": float("nan")}, "noise=nan is not valid"),
        ({"setting": "classification"}, {"noise": 0.7}, "noise=0.7 is not valid"),
    ],
)
def test_options_of_a_stream_that_mean_nothing(draw, task, options, words):
    with pytest.raises(ValueError, match=words):
        draw(Task(**{"arch": "mlp", "num_rules": 3} | task), 1, batch_size=4, split="test", options=options)
