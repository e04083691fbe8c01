"""Fixed routing: known measures of its matrices, and modules sampled from them."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from model_checks import check_members

from modtf import metrics
from modtf.models.build import build
from modtf.models.initial import InitialWeights
from modtf.models.routers import make_router
from modtf.models.routers.base import RouterSetup
from modtf.models.routers.clamped import clamped_matrix
from modtf.results.schema import write_activations
from modtf.tasks.population import Population
from modtf.tasks.task import Task

R = 8
WANTED = {  # (matrix, amount): alignment, 1 - mutual information / log R, collapse_avg
    **{("spread", a): (a, None, 0.0) for a in (0.0, 0.1, 0.25, 0.5, 0.75, 0.875)},
    ("block", 2): (0.5, 1 / 3, 0.0),
    ("block", 4): (0.75, 2 / 3, 0.0),
    ("collapsed", 2): (0.5, 1 / 3, 4 / 7),
    ("collapsed", 4): (0.75, 2 / 3, 4 / 7),
    ("collapsed", 8): (0.875, 1.0, 4 / 7),
}
MODELS = [Population.of([Task(num_rules=R)] * 2, [0, 1]), Population.of(Task(num_rules=R), 1)]


def router(population=MODELS[0], **options):
    return make_router("clamped", RouterSetup(InitialWeights(population), R, R, dtype="float32"), options)


def rules(seed, members, tokens):
    drawn = np.random.default_rng(seed).integers(R, size=[members, tokens])
    return tf.one_hot(drawn, R, axis=1), drawn


@pytest.mark.parametrize(("matrix", "amount"), WANTED)
def test_measures_are_the_wanted_ones_and_soft_p_is_the_row_of_the_rule(matrix, amount):
    alignment, information, collapse = WANTED[matrix, amount]
    A = clamped_matrix(R, matrix, amount)
    measured = metrics.measure_all(A)
    assert measured["alignment"] == pytest.approx(alignment, abs=1e-6)
    assert measured["collapse_avg"] == pytest.approx(collapse, abs=1e-6)
    if information is not None:
        assert measured["inverse_mutual_information"] == pytest.approx(information, abs=1e-6)
    rule, drawn = rules(0, 2, 50)
    p = router(matrix=matrix, amount=amount).route(rule, rule).numpy()
    np.testing.assert_array_equal(p.transpose([0, 2, 1]), A[drawn].astype("f4"))


@pytest.mark.parametrize(("matrix", "amount"), [("spread", 0.25), ("spread", 0.875), ("collapsed", 8)])
def test_hard_draws_a_million_tokens(matrix, amount):
    rule, drawn = rules(1, 1, 1_000_000)
    p = router(MODELS[1], matrix=matrix, amount=amount, hard=True).route(rule, rule).numpy()[0]
    assert set(np.unique(p)) == {0.0, 1.0}
    np.testing.assert_array_equal(p.sum(axis=0), 1.0)
    counts = np.stack([p[:, drawn[0] == r].mean(axis=1) for r in range(R)])
    np.testing.assert_allclose(counts, clamped_matrix(R, matrix, amount), atol=0.005)
    assert metrics.measure_all(counts)["alignment"] == pytest.approx(WANTED[matrix, amount][0], abs=0.005)


def test_draws_are_of_member_batch_and_token_alone():
    both, alone = router(amount=0.5, hard=True), router(MODELS[1], amount=0.5, hard=True)
    rule, _ = rules(2, 2, 4000)
    p = both.route(rule, rule).numpy()
    np.testing.assert_array_equal(p, both.route(rule, rule).numpy())
    np.testing.assert_array_equal(p[1:], alone.route(rule[1:], rule[1:]).numpy())
    same = tf.stack([rule[0], rule[0]])  # the same rules, another member
    drawn = both.route(same, same).numpy().argmax(1)
    assert np.mean(drawn[0] == drawn[1]) < 0.5
    other = tf.concat([tf.roll(rule[:, :, :1], 1, axis=1), rule[:, :, 1:]], axis=2)  # one other rule
    kept = both.route(other, other).numpy().argmax(1)[:, 1:] == p.argmax(1)[:, 1:]
    assert np.all(kept.mean(axis=1) < 0.5)


def test_a_matrix_of_zeros_and_ones_has_nothing_to_draw():
    rule, _ = rules(4, 2, 50)
    for options in ({"amount": 0.0}, {"matrix": "collapsed", "amount": 2}):
        soft, hard = (router(**options, hard=hard) for hard in (False, True))
        np.testing.assert_array_equal(soft.route(rule, rule), hard.route(rule, rule))
        assert hard.depends_only_on_rule
        assert hard.kept == []
    assert not router(amount=0.5, hard=True).depends_only_on_rule


@pytest.mark.parametrize(("options", "other"), [({}, "gt_modular"), ({"amount": 0.875}, "uniform")])
def test_at_its_ends_it_is_a_known_router(options, other, random_batch):
    task = Task(num_rules=R)
    features, target = random_batch([task] * 2, batch=16)
    values = []
    for variant, own in (("clamped", options), (other, {})):
        model = build([task] * 2, variant, 5, [0, 1], router=own)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(model(features, training=True)["target"] - target))
        values.append([loss, *tape.gradient(loss, model.trainable_variables)])
    equal = np.testing.assert_array_equal if other == "gt_modular" else np.testing.assert_allclose
    for clamped, known in zip(*values, strict=True):
        equal(clamped, known)


@pytest.mark.parametrize("arch", ["mha", "rnn"])
def test_every_architecture_draws(arch, random_batch):
    task = Task(arch, num_rules=R)
    features, _ = random_batch([task], batch=16)
    p = build([task], "clamped", 8, router={"amount": 0.5, "hard": True})(features)["activation"].numpy()
    assert set(np.unique(p)) == {0.0, 1.0}
    assert 0.3 < np.mean(p.argmax(-1) == features["rule"]) < 0.7


def write(folder, matrices, data_seeds, seeds):
    """Write matrices [members, R, M] as those of a training that ended at once."""
    write_activations(
        folder, last=matrices, best=matrices, history=matrices[None], steps=[0], data_seeds=data_seeds,
        seeds=seeds,
    )  # fmt: skip


def test_twins_have_the_last_matrices_of_their_own_members(tmp_path):
    matrices = np.random.default_rng(0).dirichlet(np.ones(R), size=[3, R])
    write(tmp_path, matrices, [4, 0, 0], [0, 1, 0])
    rule, drawn = rules(3, 2, 200_000)
    soft = router(of=str(tmp_path)).route(rule, rule).numpy()
    for member, p in zip((2, 1), soft, strict=True):  # seeds 0, 1
        np.testing.assert_allclose(p.T, matrices[member][drawn[2 - member]], atol=1e-6)
    p = router(of=str(tmp_path), hard=True).route(rule, rule).numpy()
    for member, one, of_rule in zip((2, 1), p, drawn, strict=True):
        assert set(np.unique(one)) == {0.0, 1.0}
        shares = np.stack([one.T[of_rule == r].mean(axis=0) for r in range(R)])
        np.testing.assert_allclose(shares, matrices[member], atol=0.02)


def test_a_twin_of_zeros_and_ones_fits_a_population_of_others(tmp_path):
    """Members train in turn in a model of one member, which must have the variables of every other one."""
    matrices = np.stack([np.eye(R), np.full([R, R], 1 / R)])
    write(tmp_path, matrices, [0, 0], [0, 1])
    both, alone = (
        router(one, of=str(tmp_path), hard=True) for one in (MODELS[0], Population.of(MODELS[0].tasks[:1]))
    )
    assert [kept.shape[1:] for kept in alone.kept] == [kept.shape[1:] for kept in both.kept]
    rule, _ = rules(5, 1, 50)
    np.testing.assert_array_equal(alone.route(rule, rule), rule)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_a_twin_trains_on_its_own_matrix_in_any_company(arch, hard, tmp_path, random_batch):
    task, matrices = Task(arch, num_rules=R), np.random.default_rng(0).dirichlet(np.ones(R), size=[2, R])
    write(tmp_path, matrices, [0, 0], [0, 1])
    how: dict[str, Any] = {"router": {"of": str(tmp_path), "hard": hard}, "dtype": "float64"}
    features, _ = random_batch([task] * 2, batch=16)
    check_members(
        build([task] * 2, "clamped", 8, [0, 1], **how), build(task, "clamped", 8, 1, **how), features
    )


def descend(models, batches, training=True):
    """Return the weights after one step of plain descent on every batch, each by the model of its step."""
    weights = models[0].trainable_variables
    for model, (features, target) in zip(models, batches, strict=True):
        for own, last in zip(model.trainable_variables, weights, strict=True):
            own.assign(last)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(model(features, training=training)["target"] - target))
        for own, slope in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            own.assign_sub(0.1 * slope)
        weights = model.trainable_variables
    return [weight.numpy() for weight in weights]


@pytest.mark.parametrize(("window", "wrong"), [((0, 2), "110000"), ((3, None), "000111"), ((2, 4), "001100")])
def test_wrong_routing_in_some_training_steps_only(window, wrong, random_batch):
    task, always = Task(num_rules=R), {"amount": 0.875, "hard": True}
    batches = [random_batch([task] * 2, batch=16, seed=seed) for seed in range(6)]
    timed = {**always, "from_step": window[0], **({} if window[1] is None else {"until_step": window[1]})}
    one = build([task] * 2, "clamped", 5, [0, 1], router=timed)
    kinds = {"0": {}, "1": always}
    by_step = [build([task] * 2, "clamped", 5, [0, 1], router=kinds[which]) for which in wrong]
    for ours, known in zip(descend([one] * 6, batches), descend(by_step, batches), strict=True):
        np.testing.assert_array_equal(ours, known)
    features, _ = batches[0]
    np.testing.assert_array_equal(one(features)["activation"].numpy().argmax(-1), features["rule"])


def test_a_truth_value_is_not_a_number():
    """Both would run, and results would name them differently: hard=1 and hard=True."""
    with pytest.raises(ValueError, match="hard=1 is not known; expected one of False, True"):
        router(hard=1)
