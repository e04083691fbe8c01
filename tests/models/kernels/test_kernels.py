"""Every kernel against its plain form, values and gradients, in float64."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from modtf import Population, Task
from modtf.models.initial import InitialWeights
from modtf.models.kernels import textbook
from modtf.models.kernels.attention import attend, project
from modtf.models.kernels.by_device import KERNELS, use_kernels
from modtf.models.kernels.hard_routing import hard_routing, mixture
from modtf.models.kernels.scan import Scan
from modtf.models.kernels.scan_gradient import vector_jacobian
from modtf.models.kernels.scan_layout import ScanLayout
from modtf.models.kernels.sums import softmax, weigh
from modtf.models.layers import Mixture
from modtf.models.recurrence import CELLS


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
