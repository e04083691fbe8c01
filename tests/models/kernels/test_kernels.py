"""Every kernel against its plain form, values and gradients, in float64."""

import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import modtf
from modtf import Population, Task
from modtf.models.initial import InitialWeights, noise_keys
from modtf.models.kernels import by_device, gradients, textbook
from modtf.models.kernels.attention import attend, project
from modtf.models.kernels.by_device import KERNELS, kernels, use_kernels
from modtf.models.kernels.hard_routing import hard_routing, mixture
from modtf.models.kernels.noise import threefry, uniform_noise
from modtf.models.kernels.normalisation import BatchNormalization
from modtf.models.kernels.scan import Scan, ScanLayout, vector_jacobian
from modtf.models.kernels.sums import softmax, weigh
from modtf.models.layers import Mixture
from modtf.models.recurrence import CELLS
from modtf.tasks.protocol import Evaluation


def draw(*shape, seed=0):
    return tf.constant(np.random.default_rng([seed, *shape]).standard_normal(shape))


def compare(kernel, plain, arguments):
    """Check that both functions give the same tensors, and the same gradients of all arguments."""
    both = []
    for function in (kernel, plain):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            results = tf.nest.flatten(function(*arguments))
            value = sum(tf.reduce_sum(draw(*result.shape) * result) for result in results)
        both.append([*results, *tape.gradient(value, arguments, unconnected_gradients="zero")])
    for result, expected in zip(*both, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9)


@pytest.fixture(params=KERNELS)
def every_form(request):
    """The forms for a CPU core and for an accelerator."""
    with use_kernels(request.param):
        yield request.param


@pytest.mark.parametrize(("width", "tokens"), [(2, 3), (17, 3), (34, 3), (2, 17), (3, 20)])
def test_attend(width, tokens, every_form):
    """Heads and tokens are summed in one piece and in several."""
    compare(attend, textbook.attend, [draw(2, width, tokens, 4, seed=seed) for seed in range(3)])


def test_a_token_never_attends_to_itself():
    """Heads alone: the answer for a token must not change with its own key and value."""
    query, key, value = (draw(2, 3, 4, 5, seed=seed).numpy() for seed in range(3))
    before = attend(*map(tf.constant, (query, key, value))).numpy()
    key[:, :, 1] += 1.0
    value[:, :, 1] -= 1.0
    after = attend(*map(tf.constant, (query, key, value))).numpy()
    np.testing.assert_allclose(after[:, :, 1], before[:, :, 1], rtol=1e-12)
    assert not np.allclose(after[:, :, 0], before[:, :, 0])


def test_project():
    def plain(kernel, bias, x):
        return tf.reshape(kernel @ x + bias, [6, 2, 5, 7])

    arguments = [draw(2, 6, 4), draw(2, 6, 1), draw(2, 4, 35)]
    compare(lambda kernel, bias, x: project(kernel, bias, x, [2, 5, 7]), plain, arguments)


@pytest.mark.parametrize("modules", [2, 3, 16, 17, 32])
def test_softmax(modules, every_form):
    """Sums over few modules and, in pieces, over many."""
    compare(softmax, textbook.softmax, [draw(2, modules, 5)])


@pytest.mark.parametrize("width", [1, 16, 40])
def test_weigh(width, every_form):
    compare(weigh, textbook.weigh, [draw(6, width, 5), draw(6, 5)])


def test_mixture(every_form):
    population = Population.of([Task(), Task()], [0, 1])
    layer = Mixture(InitialWeights(population), 3, 4, 5, "mixture", dtype="float64")

    def plain(h, activation):
        return textbook.mixture(layer.kernel.value, layer.bias.value, h, activation)

    compare(layer, plain, [draw(2, 12, 7), draw(2, 3, 7)])


def by_rule(rule, scores):
    """A router without a custom gradient that reads the rule and the scores."""
    return tf.nn.softmax(tf.tanh(scores) * tf.reduce_sum(rule[:, 1:], axis=1, keepdims=True), axis=1)


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("modules", [2, 5])
@pytest.mark.parametrize("cell", [name for name in CELLS if hasattr(CELLS[name], "gradient")])
def test_scan(cell, modules, scored, every_form):
    members, width, inputs, tokens, batch, rules = 2, 3, 4, 3, 5, 4
    layout = ScanLayout(
        members=members, gates=CELLS[cell].num_gates, states=CELLS[cell].num_states, modules=modules,
        width=width, inputs=inputs, num_tokens=tokens, batch=batch, scored=scored, dtype="float64",
    )  # fmt: skip
    rows = layout.gates * modules * width
    kernels = [draw(members, rows, inputs), draw(members, rows, width)]
    routing = tf.constant(np.eye(rules)[np.arange(tokens * members * batch) % rules])
    routing = tf.transpose(tf.reshape(routing, [tokens, members, batch, rules]), [0, 1, 3, 2])
    score = draw(2, members, layout.gates, modules, width, 1)
    if not scored:
        kernels, score = [tf.concat(kernels, axis=2)], tf.zeros([1], tf.float64)
        routing = tf.nn.softmax(draw(tokens, members, modules, batch), axis=2)

    def plain(*inputs_and_weights):
        return textbook.scan(CELLS[cell], layout, by_rule, *inputs_and_weights)

    arguments = [draw(tokens, members, inputs, batch), routing, score, *kernels]
    if scored:  # the scan gives rules no gradient, because they are data
        tokens_given, rules_given, *weights = arguments
        compare(
            lambda x, *rest: Scan(CELLS[cell], layout, by_rule)(x, rules_given, *rest),
            lambda x, *rest: plain(x, rules_given, *rest),
            [tokens_given, *weights],
        )
    else:
        compare(Scan(CELLS[cell], layout, by_rule), plain, arguments)


@pytest.mark.parametrize("function", [textbook.softmax, softmax])
def test_vector_jacobian(function):
    """Also for a function with a custom gradient, and in a compiled loop."""
    x, upstream = draw(2, 20, 5), draw(2, 20, 5, seed=1)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.softmax(x, axis=1)
    expected = tape.gradient(y, x, upstream)

    def three_times(x, upstream):
        def step(_, total):
            return total + vector_jacobian(function, x, upstream)

        return ops.fori_loop(0, 3, step, tf.zeros_like(x))

    compiled = tf.function(three_times, jit_compile=True)
    np.testing.assert_allclose(vector_jacobian(function, x, upstream), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(compiled(x, upstream), 3 * expected, rtol=1e-9, atol=1e-12)


def test_vector_jacobian_of_a_constant():
    x = draw(2, 3)
    np.testing.assert_array_equal(vector_jacobian(tf.ones_like, x, x), tf.zeros_like(x))


@pytest.mark.parametrize(
    "choice", [[1, 1, 0, 3] * 3, [0, 1, 2, 3] * 3, [2] * 12, [3, 3, 0, 3, 0, 0, 3, 0, 0, 3, 3, 0]]
)
def test_hard_routing_is_the_mixture_with_one_module(choice, every_form):
    """Values and gradients agree, even if modules are not chosen, or examples are not in the usual order."""
    generator = np.random.default_rng(0)
    x = tf.constant(generator.normal(size=[12, 5, 5, 2]), tf.float32)
    scales = tf.constant(generator.normal(size=[12, 3]), tf.float32)
    weights = tf.Variable(generator.normal(size=[4, 3, 3, 2, 3]), dtype=tf.float32)
    modules = [
        lambda x, scale, m=m: scale * tf.reduce_max(tf.nn.conv2d(x, weights[m], 1, "SAME"), [1, 2])
        for m in range(4)
    ]

    def run(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            answers = function()
            loss = tf.reduce_sum(answers**2)
        return answers, *tape.gradient(loss, [x, weights])

    hard = run(tf.function(lambda: hard_routing(modules, [x, scales], tf.constant(choice), [1, 1, 0, 3])))
    one_hot = tf.one_hot(choice, 4)
    mixed = run(lambda: mixture([module(x, scales) for module in modules], one_hot))
    for one, other in zip(hard, mixed, strict=True):
        np.testing.assert_allclose(one, tf.convert_to_tensor(other), rtol=1e-6, atol=1e-5)


TINY = Evaluation(batches=1, batch_size=4, tokens=40, activation_batch_size=4, draws=1, tokens_per_draw=40)


@pytest.mark.parametrize("arch", ["mlp", *(pytest.param(a, marks=pytest.mark.slow) for a in ("mha", "rnn"))])
def test_a_trained_model_can_be_forgotten(arch):
    task = modtf.Task(arch, num_rules=2)
    model = modtf.build(task, "modular", 8)
    before = set(gradients._registered())
    modtf.train(
        model, task, 1, batch_size=4, evaluations=1, evaluation=TINY, verbose=False, jit_compile=False
    )
    assert set(gradients._registered()) == before
    weights = [weakref.ref(variable) for variable in model.trainable_variables]
    del model
    gc.collect()
    assert not any(variable() is not None for variable in weights)


def test_gradients_outside_training_stay():
    """A user's own traced step may still be differentiated."""
    import tensorflow as tf

    task = modtf.Task(num_rules=2)
    model = modtf.build(task, "modular", 8)
    features, _ = next(iter(modtf.stream(task, 4)))
    forward = tf.function(lambda: tf.reduce_sum(model(features)["target"]))
    forward()
    modtf.evaluate(model, task, evaluation=TINY)
    with tf.GradientTape() as tape:
        loss = forward()
    assert tape.gradient(loss, model.trainable_variables[0]) is not None


@by_device.by_device(accelerator=lambda x: ("accelerator", x))
def kernel(x):
    return "cpu", x


def test_the_device_decides_unless_someone_else_does(monkeypatch):
    assert kernels() == "cpu"
    with use_kernels("accelerator"):
        assert kernel(1) == ("accelerator", 1)
        with use_kernels("cpu"):
            assert kernel(2) == ("cpu", 2)
        with use_kernels(None):
            assert kernel(3) == ("cpu", 3)
        assert kernels() == "accelerator"
    monkeypatch.setattr(by_device, "on_cpu", lambda: False)
    assert kernels() == "accelerator"
    with use_kernels("cpu"):
        assert kernels() == "cpu"


def test_an_unknown_form_is_refused_and_changes_nothing():
    with pytest.raises(ValueError, match="kernels='gpu' is not known; expected one of cpu, accelerator"):
        use_kernels("gpu").__enter__()
    assert kernels() == "cpu"


@pytest.mark.parametrize("arch", ["mha", "rnn"])
def test_a_model_is_the_same_in_both_forms(arch, random_batch):
    """Covers modules that score themselves, and heads that are wide enough for sums in pieces."""
    tasks = [modtf.Task(arch, num_rules=2)] * 2
    model = modtf.build(tasks, "modular", 18, [0, 1], dtype="float64")
    features, _ = random_batch(tasks, batch=16, seq_len=3)
    expected = model(features)
    with use_kernels("accelerator"):
        found = model(features)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12)


ONES = 0xFFFFFFFF


def words(*values):
    return [tf.constant(value, tf.uint32) for value in values]


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(key, counter, expected):
    """The vectors of Threefry's authors."""
    assert tuple(int(word) for word in threefry(words(*key), words(*counter))) == expected


def test_uniform_numbers():
    keys, steps = np.array([[1, 2], [3, 4]], np.int32), np.array([5, 5], np.int32)
    found = np.asarray(uniform_noise(keys, steps, 4, np.arange(5000, dtype=np.int32)))
    assert found.shape == (2, 4, 5000)
    assert 0 < found.min() < 0.001
    assert 0.999 < found.max() < 1
    assert abs(found.mean() - 0.5) < 0.01
    assert abs(found.std() - 12**-0.5) < 0.01
    assert np.abs(np.corrcoef(found.reshape([8, -1])) - np.eye(8)).max() < 0.06
    part = uniform_noise(keys[1:], steps[1:], 3, np.arange(7, 70, dtype=np.int32))
    np.testing.assert_array_equal(part, found[1:, :3, 7:70])
    later = np.asarray(uniform_noise(keys, steps + 1, 4, np.arange(5000, dtype=np.int32)))
    assert np.mean(later == found) < 0.001


def test_a_members_key_does_not_depend_on_its_company():
    tasks, seeds = [Task(data_seed=i) for i in (0, 0, 1)], [0, 1, 0]
    together = noise_keys(InitialWeights(Population.of(tasks, seeds)))
    assert together.shape == (3, 2)
    assert together.min() >= 0
    assert len({tuple(key) for key in together}) == 3
    alone = noise_keys(InitialWeights(Population.of(tasks[2], 0)))
    np.testing.assert_array_equal(together[2:], alone)


MOMENTUM, EPSILON = 0.9, 1e-5


def in_numpy(x, weight, affine):
    """Return y, the gradients of sum(weight * y), and the moving averages after one step from 0 and 1."""
    width = x.shape[-1]
    rows, w = (np.float64(values).reshape(-1, width) for values in (x, weight))
    scale, shift = (np.linspace(0.5, 2, width), np.linspace(-1, 1, width)) if affine else (1.0, 0.0)
    mean, variance = rows.mean(axis=0), rows.var(axis=0)
    rate = 1 / np.sqrt(variance + EPSILON)
    unit = (rows - mean) * rate
    of_x = scale * rate * (w - w.mean(axis=0) - unit * (w * unit).mean(axis=0))
    of_weights = [(w * unit).sum(axis=0), w.sum(axis=0)] if affine else []
    kept = (1 - MOMENTUM) * mean, MOMENTUM + (1 - MOMENTUM) * variance
    return [(scale * unit + shift).reshape(x.shape), of_x.reshape(x.shape), *of_weights, *kept]


@pytest.mark.parametrize(
    ("shape", "mean", "spread"),
    [((6, 4, 3, 5), 1, 2), ((6, 4, 3, 5), 1000, 1), ((7, 5), 1, 0.003), ((1, 5), 1, 2)],
)
@pytest.mark.parametrize("affine", [True, False])
def test_it_is_what_the_equations_say(shape, mean, spread, affine):
    """Answers, gradients and moving averages: a large mean, variances near epsilon, one example."""
    generator = np.random.default_rng(0)
    x, weight = (np.float32(values) for values in generator.normal(size=(2, *shape)))
    x = mean + np.float32(spread) * x
    layer = BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, center=affine, scale=affine)
    layer.build(shape)
    if affine:
        layer.gamma.assign(np.linspace(0.5, 2, shape[-1]))
        layer.beta.assign(np.linspace(-1, 1, shape[-1]))

    @tf.function
    def both(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(weight * y)
        return y, *tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)])

    found = [*both(tf.constant(x)), *layer.non_trainable_variables]
    for own, expected in zip(found, in_numpy(x, weight, affine), strict=True):
        np.testing.assert_allclose(own, expected, rtol=3e-4, atol=3e-4 * np.abs(expected).max())


def test_a_mask_leaves_rows_out():
    x, layer = np.random.default_rng(0).normal(size=[7, 5]), BatchNormalization(momentum=0.0)
    layer(np.float32(x), training=True, mask=np.arange(7) < 3)
    np.testing.assert_allclose(layer.moving_mean, x[:3].mean(axis=0), rtol=1e-5)


def test_noise_is_for_numbered_tokens():
    with pytest.raises(ValueError, match="tokens=7 is not valid; expected the tokens' numbers"):
        uniform_noise(np.array([[1, 2]], np.int32), np.array([5], np.int32), 4, 7)
