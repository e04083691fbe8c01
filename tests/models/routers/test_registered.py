"""The unpublished routers: one small model of each family, and the properties that each router promises.

Values and gradients are compared in tests/models/test_textbook.py.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from model_checks import check_members, depends_only_on_rule

from modtf import Population, Task, build
from modtf.models.initial import InitialWeights
from modtf.models.kernels.sums import largest
from modtf.models.routers import ROUTERS, default_variants, make_router
from modtf.models.routers.base import RouterSetup
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import with_free_rules

WIDTH, RULES = 5, 3
SCORES = np.random.default_rng(0).standard_normal([2, RULES, 6])


def router(name, **options):
    """A router alone, of two members and three rules."""
    population = Population.of([Task(num_rules=RULES)] * 2, [0, 1])
    return make_router(name, RouterSetup(InitialWeights(population), RULES, RULES, dtype="float64"), options)


def route(name, scores=SCORES, **options):
    """Return the router's p for these scores."""
    rule = np.eye(RULES)[np.zeros([len(scores), scores.shape[2]], int)].transpose([0, 2, 1])
    return keras.ops.convert_to_numpy(router(name, **options).route(rule, rule, tf.constant(scores)))


def softmax(x):
    shares = np.exp(x - x.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "arch", [pytest.param(arch, marks=[pytest.mark.slow] * (arch != "mlp")) for arch in with_free_rules()]
)
def test_a_model_of_each_family(arch, other, random_batch):
    """Checks p, a member alone, the initial weights and the budget."""
    task = Task(arch, num_rules=RULES)
    if ROUTERS[other].sees_batch and arch == "rnn":
        with pytest.raises(ValueError, match="lets modules choose among all tokens of a batch"):
            build(task, other, WIDTH)
        return
    features, _ = random_batch([task] * 2, batch=16)
    model = build([task] * 2, other, WIDTH, [0, 1], dtype="float64")
    alone = build(task, other, WIDTH, 1, dtype="float64")
    check_members(model, alone, features)
    assert model.num_modules == RULES
    assert (model.losses != []) == (model.router.penalty_name is not None)
    for both, own in zip(model.trainable_variables, alone.trainable_variables, strict=True):
        np.testing.assert_array_equal(both.numpy()[1], own.numpy()[0])
        assert not np.any(both.numpy()[0] == both.numpy()[1])
    assert depends_only_on_rule(model, features) == model.router.depends_only_on_rule
    usual = build(task, "modular", 16).num_parameters
    assert abs(build(task, other, 16).num_parameters / usual - 1) < 0.07


def test_the_published_ones_are_the_default(plugins):
    """Routers that a plug-in adds are shown, too."""
    assert list(ROUTERS)[: len(VARIANTS)] == list(VARIANTS)
    names = default_variants()
    assert names[: len(VARIANTS)] == list(VARIANTS)
    assert names[len(VARIANTS) :] == [name for name in ROUTERS if name.startswith("plugin_")] != []


def test_the_largest():
    scores = np.array([[[1.0, 0.0, 2.0], [3.0, 0.0, 2.0], [2.0, 0.0, 2.0]]])
    np.testing.assert_array_equal(largest(scores)[0], [[0, 1, 1], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(largest(scores, 2)[0], [[0, 1, 1], [1, 1, 1], [1, 0, 0]])
    np.testing.assert_array_equal(largest(scores, 3), np.ones([1, 3, 3]))


def test_temperature():
    np.testing.assert_allclose(route("temperature", temperature=1.0), route("modular"), rtol=1e-12)
    np.testing.assert_allclose(route("temperature", temperature=0.25), softmax(4 * SCORES), rtol=1e-12)


def test_top_k():
    """The weights of the chosen modules are proportional to the softmax."""
    p = route("top_k", k=2)
    assert np.all((p > 0).sum(axis=1) == 2)
    least = SCORES.argmin(axis=1)[:, None] == np.arange(RULES)[:, None]
    kept = np.where(least, 0.0, softmax(SCORES))
    np.testing.assert_allclose(p, kept / kept.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(route("top_k", k=RULES), route("modular"), rtol=1e-12)


def test_uniform():
    np.testing.assert_array_equal(route("uniform"), np.full([2, RULES, 6], 1 / 3))
    np.testing.assert_array_equal(route("uniform", modules=4), np.full([2, 4, 6], 1 / 4))


def test_cosine():
    """The logits are cosines for scores of any size. All-zero scores are no error."""
    np.testing.assert_allclose(route("cosine", SCORES), route("cosine", 100 * SCORES), rtol=1e-9)
    logits = np.log(route("cosine", temperature=1.0))
    spread = logits.max(axis=1) - logits.min(axis=1)
    assert 0 < spread.max() <= 2 * np.exp(RULES**-0.5)
    np.testing.assert_allclose(route("cosine", 0 * SCORES), 1 / RULES)


def test_switch():
    """p is one-hot; the scores have the softmax's gradient; the penalty has the paper's gradient."""
    switch, scores = router("switch", strength=2.0), tf.Variable(SCORES)
    weights = np.random.default_rng(1).standard_normal(SCORES.shape)
    with tf.GradientTape(persistent=True) as tape:
        p, shares = switch.route(None, None, scores), tf.nn.softmax(scores, axis=1)
        used = tf.reduce_mean(tf.stop_gradient(p), axis=2)
        hard, soft = tf.reduce_sum(weights * p), tf.reduce_sum(weights * shares)
        price = tf.reduce_sum(switch.penalise(p))
        published = tf.reduce_sum(2.0 * RULES * used * tf.reduce_mean(shares, axis=2))
    np.testing.assert_array_equal(p, np.eye(RULES)[SCORES.argmax(axis=1)].transpose([0, 2, 1]))
    np.testing.assert_allclose(tape.gradient(hard, scores), tape.gradient(soft, scores), atol=1e-12)
    np.testing.assert_allclose(tape.gradient(price, scores), tape.gradient(published, scores), atol=1e-12)
    even, single = np.full([2, RULES, 6], 1 / RULES), np.eye(RULES)[np.zeros([2, 6], int)]
    np.testing.assert_allclose(switch.penalise(even), 2.0)
    np.testing.assert_allclose(switch.penalise(single.transpose([0, 2, 1])), 2.0 * RULES)


def test_z_loss():
    priced = router("z_loss", strength=2.0)
    sums = np.log(np.exp(SCORES).sum(axis=1))
    np.testing.assert_allclose(route("z_loss"), route("modular"), rtol=1e-12)
    np.testing.assert_allclose(priced.penalise(SCORES, SCORES), 2 * (sums**2).mean(axis=1), rtol=1e-12)


def test_annealed():
    cooling = router("annealed", start=2.0, end=0.5, steps=4)
    routed = []
    for _ in range(6):
        routed.append(np.asarray(cooling.route(SCORES, None, tf.constant(SCORES))))
        cooling.advance(None)
    for p, temperature in zip(routed, [2, 2**0.5, 1, 2**-0.5, 0.5, 0.5], strict=True):
        np.testing.assert_allclose(p, softmax(SCORES / temperature), rtol=1e-9)


@pytest.mark.parametrize(("name", "options"), [("bias_balanced", {}), ("balanced", {"balance": "bias"})])
def test_balanced_by_a_bias(name, options):
    """The bias moves against the load. It affects the choice, but not the weights."""
    balanced, scores = router(name, k=1, rate=0.25, **options), tf.constant(SCORES)
    p = balanced.route(SCORES, None, scores)
    np.testing.assert_array_equal(p, np.eye(RULES)[SCORES.argmax(axis=1)].transpose([0, 2, 1]))
    load = np.asarray(p).mean(axis=2, keepdims=True)
    balanced.advance(p)
    np.testing.assert_allclose(balanced.bias, 0.25 * np.sign(1 / 3 - load))
    balanced.bias.assign([[[9.0], [0.0], [0.0]], [[0.0], [9.0], [0.0]]])
    chosen = np.asarray(balanced.route(SCORES, None, scores)).argmax(axis=1)
    np.testing.assert_array_equal(chosen, np.repeat([[0], [1]], 6, axis=1))
    np.testing.assert_allclose(route(name, k=2, **options), route("top_k", k=2), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "options", "other"),
    [
        ("modular", {}, {}),
        ("switch", {"strength": 2.0}, {"k": 1, "balance": "auxiliary", "strength": 2.0}),
        ("switch", {"strength": 0.0}, {"k": 1}),
        ("top_k", {"k": 2}, {"k": 2, "balance": "auxiliary"}),
        ("bias_balanced", {"k": 2}, {"k": 2, "balance": "bias"}),
    ],
)
def test_balanced_is_other_routers(name, options, other):
    """p equals the other routers' p; for every k the scores' gradient is that of the softmax."""
    np.testing.assert_allclose(route("balanced", **other), route(name, **options), atol=1e-12)
    balanced, scores = router("balanced", **other), tf.Variable(SCORES)
    weights = np.random.default_rng(1).standard_normal(SCORES.shape)
    with tf.GradientTape(persistent=True) as tape:
        p, shares = balanced.route(SCORES, None, scores), tf.nn.softmax(scores, axis=1)
        routed, soft = tf.reduce_sum(weights * p), tf.reduce_sum(weights * shares)
    np.testing.assert_allclose(tape.gradient(routed, scores), tape.gradient(soft, scores), atol=1e-12)
    if name == "switch":
        np.testing.assert_allclose(balanced.penalise(p), router(name, **options).penalise(p))


def test_balanced_by_sequence():
    """Three examples of two tokens each have their own penalty; the loss gets the mean."""
    balanced = router("balanced", balance="auxiliary", strength=2.0, scope="sequence")
    shares = softmax(SCORES)
    with balanced.during(True, 3):
        penalty = balanced.penalise(tf.constant(shares))
    used = shares.reshape(2, RULES, 2, 3).mean(axis=2)  # tokens lie [N, B]
    np.testing.assert_allclose(penalty, 2.0 * RULES * (used**2).sum(axis=1).mean(axis=1))


def test_gumbel():
    """In training it samples from the softmax; the gradient is that of the softmax of the noisy scores."""
    drawing, count = router("gumbel", temperature=0.5), 4000
    logits = np.log([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])[:, :, None]
    noise = np.asarray(drawing.extra_input(np.zeros([2, RULES, count]), True))
    scores = tf.Variable(np.repeat(logits, count, axis=2))
    with tf.GradientTape() as tape:
        p = drawing.call(None, None, scores, extra=tf.constant(noise, "float64"))
        value = tf.reduce_sum(p * SCORES[:, :, :1])
    np.testing.assert_array_equal(np.unique(p), [0, 1])
    np.testing.assert_allclose(np.asarray(p).mean(axis=2), np.exp(logits[:, :, 0]), atol=0.03)
    shares = softmax((scores.numpy() + noise) / 0.5)
    expected = 2 * shares * (SCORES[:, :, :1] - (shares * SCORES[:, :, :1]).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(tape.gradient(value, scores), expected, rtol=1e-5, atol=1e-7)
    drawing.advance(None)
    again = np.asarray(drawing.extra_input(np.zeros([2, RULES, count]), True))
    assert not np.any(again == noise, axis=1).all()
    assert drawing.extra_input(np.zeros([2, RULES, 5]), False) is None
    np.testing.assert_array_equal(route("gumbel"), np.eye(RULES)[SCORES.argmax(axis=1)].transpose([0, 2, 1]))


def test_tokens_of_a_second_call_have_their_own_noise():
    """A layer for leaves and roots is called twice in a forward pass. The next pass begins anew."""
    drawing, rule = router("gumbel"), np.zeros([2, RULES, 50])

    def two_calls():
        with drawing.during(True, 50):
            return [np.asarray(drawing.extra_of(rule)) for _ in range(2)]

    first, second = two_calls()
    assert not (first == second).any()
    assert [drawing.token_numbers(3).numpy().tolist() for _ in range(2)] == [[0, 1, 2]] * 2
    for one, again in zip((first, second), two_calls(), strict=True):
        np.testing.assert_array_equal(one, again)


def test_penalties_are_not_rounded_to_half_precision():
    z_loss = router("z_loss", strength=1.0)
    scores = tf.cast(SCORES, "bfloat16")
    np.testing.assert_array_equal(
        z_loss.penalise(scores, scores), z_loss.penalise(*[tf.cast(scores, "float64")] * 2)
    )


def test_expert_choice():
    """Every module takes equally many tokens; p holds the shares of the modules that took the token."""
    shares, p = softmax(SCORES), route("expert_choice", capacity=1.0)
    taken = np.zeros(SCORES.shape, bool)
    for member in range(2):
        for module in range(RULES):
            taken[member, module, np.argsort(shares[member, module])[-2:]] = True
    taken |= ~taken.any(axis=1, keepdims=True)  # tokens that no module took
    kept = np.where(taken, shares, 0)
    np.testing.assert_allclose(p, kept / kept.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(route("expert_choice", capacity=3.0), shares, rtol=1e-12)
    extreme = tf.Variable(SCORES * 1e4)  # every share rounds to 0 or 1
    with tf.GradientTape() as tape:
        p = router("expert_choice", capacity=1.0).call(None, None, extreme)
        total = tf.reduce_sum(p * SCORES)
    np.testing.assert_allclose(tf.reduce_sum(p, axis=1), 1, rtol=1e-12)
    assert np.isfinite(tape.gradient(total, extreme)).all()


def test_expert_choice_takes_a_whole_number_of_tokens():
    """25,600 tokens x 5.25 / 10 = 13,440; with a rounded 0.525 it was one token less."""
    scores = np.random.default_rng(0).standard_normal([2, 10, 25_600])
    p = route("expert_choice", scores, modules=10, capacity=5.25)
    shares = softmax(scores)
    taken = shares >= np.sort(shares, axis=2)[:, :, -13_440, None]
    np.testing.assert_array_equal(p > 0, taken | ~taken.any(axis=1, keepdims=True))
