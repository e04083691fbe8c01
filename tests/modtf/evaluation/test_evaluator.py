"""`Evaluator` against NumPy on the same streams; `modtf.evaluate`: names, splits, seeds, and errors."""

from dataclasses import replace

import numpy as np
import pytest

import modtf
from modtf import Evaluation, Population, Task, build
from modtf.evaluation.evaluator import Evaluator
from modtf.metrics import activation_measures, measure_all, rule_distributions
from modtf.models.routers import ROUTERS
from modtf.tasks.families import with_free_rules

MEASURES = {measure.name for measure in activation_measures()}
TASK = Task(arch="rnn", setting="classification", num_rules=2)
CONDITIONS = ("iid", "scale2", "len3", "len3_scale2")


def test_of_a_member_alone_whose_weights_are_no_numbers_nothing_is_known(small_sizes):
    task = Task("vqa_mnist", question="attribute", examples=1260)
    model = build(task, "all_all_all", 2)
    evaluator = Evaluator(model, Population.of(task), replace(small_sizes, conditions=None))
    kernel = next(w for w in model.trainable_weights if "conv" in w.path)
    kernel.assign(np.full(kernel.shape, np.nan))
    scores = evaluator.run()
    assert {name for name, *_ in scores.rows} > {"loss", "error"}
    assert all(np.isnan(values).all() for values in scores.rows.values())
    assert all(np.isnan(matrix).all() for matrix in scores.activation.values())


@pytest.fixture(scope="module")
def sizes(small_sizes):
    return replace(small_sizes, conditions=CONDITIONS)


@pytest.fixture(scope="module")
def population(sizes):
    """A population of two rnn members, its evaluator, which is used twice, and its scores."""
    population = Population.of([TASK, TASK.replace(data_seed=1)], [0, 1])
    model = build(population, "modular", 4)
    model.compile(jit_compile=False)
    calls, original = [], model.call

    def call(features, training=None):
        calls.append(features["inputs"].shape)
        return original(features, training)

    model.call = call  # type: ignore[method-assign]
    evaluator = Evaluator(model, population, sizes)
    return model, evaluator, evaluator.run(), calls


@pytest.fixture(scope="module")
def member():
    return build(TASK, "modular", 4, 0)


@pytest.mark.parametrize("name", CONDITIONS)
def test_performance(population, member, batches, sizes, name):
    _, _, scores, _ = population
    options = {"batch_size": sizes.batch_size, "split": "test"}
    options |= TASK.family.condition(name).stream_options()
    elements = batches(TASK, sizes.batches, **options)
    logits = np.stack([member(features)["target"].numpy() for features, _ in elements]).astype(np.float64)
    labels = np.stack([target for _, target in elements])
    loss = np.mean(np.logaddexp(0, logits) - labels * logits)
    error = 100 * np.mean((logits >= 0) != (labels == 1))
    np.testing.assert_allclose(scores.rows["loss", name, ""][0], loss, rtol=1e-4)
    np.testing.assert_allclose(scores.rows["error", name, ""][0], error, rtol=1e-4)


def test_activation_and_measures(population, member, batches, sizes):
    """Tokens of a sequence depend on each other: use under other rule probabilities is sampled."""
    _, _, scores, _ = population
    steps = -(-sizes.tokens // (sizes.activation_batch_size * 10))
    options = {"batch_size": sizes.activation_batch_size, "split": "test"}
    elements = batches(TASK, steps, **options)
    rules = np.concatenate([features["rule"].ravel() for features, _ in elements])
    p = np.concatenate([member(features)["activation"].numpy().reshape(-1, 2) for features, _ in elements])
    A = np.stack([p[rules == rule].mean(0, dtype=np.float64) for rule in range(2)])
    np.testing.assert_allclose(scores.activation[""][0], A, atol=1e-5)
    draws = sizes.draws
    elements = batches(TASK, draws, rule_probs=rule_distributions(2, draws), **options)  # one batch a draw
    usage = [member(features)["activation"].numpy().mean((0, 1)) for features, _ in elements]
    drawn = [features["rule"].ravel() for features, _ in elements]
    came = [np.bincount(rules, minlength=2) / rules.size for rules in drawn]
    expected = measure_all(A, usage=np.stack(usage), rule_frequencies=np.stack(came))
    for name, value in expected.items():
        np.testing.assert_allclose(scores.rows[name, "iid", ""][0], value, atol=1e-4, err_msg=name)


def test_again_is_the_same_and_traces_nothing(population):
    _, evaluator, scores, calls = population
    count = len(calls)
    assert count <= 6  # eagerly, and per length
    np.testing.assert_equal(evaluator.run().rows, scores.rows)
    assert len(calls) == count
    performance = {TASK.family.condition(name).of(m) for m in ("loss", "error") for name in CONDITIONS}
    assert set(scores.member(1)) == performance | MEASURES


def test_other_data_share_what_is_compiled(population, sizes):
    _, evaluator, scores, calls = population
    count = len(calls)
    less = replace(sizes, batches=1, draws=2, conditions=("len3",))
    others = evaluator.on(less, "validation").run()
    assert len(calls) == count
    assert {condition for _, condition, _ in others.rows} == {"iid", "len3"}
    assert not np.allclose(others.activation[""], scores.activation[""])
    assert evaluator.evaluation == sizes
    with pytest.raises(ValueError, match="draws=6 is not valid; expected at most 5"):
        evaluator.on(replace(sizes, draws=6), "test")


@pytest.mark.parametrize("arch", ["mlp", "mha"])
@pytest.mark.parametrize("variant", ROUTERS)
def test_use_is_exact_where_p_depends_on_the_token_alone(arch, variant, small_sizes):
    task, router = Task(arch), ROUTERS[variant]
    evaluator = Evaluator(build(task, variant, 8), Population.of(task), small_sizes)
    exact = router.depends_only_on_rule or not (task.is_sequence or router.sees_batch)
    assert evaluator.exact_usage == exact


def test_a_diverged_member_is_nan_and_leaves_the_others_alone(population, sizes):
    model, evaluator, scores, _ = population
    weights = [v.numpy() for v in model.trainable_variables]
    for variable, value in zip(model.trainable_variables, weights, strict=True):
        broken = value.copy()
        broken[1] = np.nan
        variable.assign(broken)
    broken_scores = evaluator.run()
    for variable, value in zip(model.trainable_variables, weights, strict=True):
        variable.assign(value)
    assert np.isnan(broken_scores.activation[""][1]).all()
    for key, values in broken_scores.rows.items():
        assert values[0] == scores.rows[key][0]
        assert np.isnan(values[1]), key  # also errors, although NaN is a wrong answer or a right one


def test_a_diverged_member_is_nan_where_fixed_routing_hides_it(small_sizes):
    """Its p stays one-hot, which counted as perfect measures in the means over members."""
    population = Population.of([Task(), Task(data_seed=1)], [0, 1])
    model = built(population, "gt_modular", 4)
    for variable in model.trainable_variables:
        values = variable.numpy()
        values[1] = np.nan
        variable.assign(values)
    scores = Evaluator(model, population, small_sizes).run()
    for key, (whole, diverged) in scores.rows.items():
        assert np.isfinite(whole), key
        assert np.isnan(diverged), key
    assert np.isnan(scores.activation[""][1]).all()
    assert np.isfinite(scores.activation[""][0]).all()


def built(*args, **options):
    """A model without XLA compilation, which would take seconds."""
    model = build(*args, **options)
    model.compile(jit_compile=False)
    return model


def test_the_oracle_is_perfect_and_the_monolithic_has_no_measures(small_sizes):
    scores = modtf.evaluate(build(Task(), "gt_modular", 4), Task(), evaluation=small_sizes)
    assert set(scores) == {"loss", "loss_scale2"} | MEASURES
    assert all(abs(scores[name]) < 1e-6 for name in MEASURES)
    (scores,) = modtf.evaluate(built([Task()], "monolithic", 4, [0]), [Task()], evaluation=small_sizes)
    assert all(np.isnan(scores[name]) for name in MEASURES)


@pytest.mark.parametrize(
    "arch", [pytest.param(arch, marks=[pytest.mark.slow] * (arch != "mha")) for arch in with_free_rules()]
)
def test_every_condition_stands_under_its_name(arch):
    task = Task(arch, "classification")
    few = Evaluation(batches=1, batch_size=4, tokens=160, draws=1, tokens_per_draw=40)
    scores = modtf.evaluate(built(task, "gt_modular", 8), task, evaluation=few)
    expected = {c.of(measure) for measure in ("loss", "error") for c in task.family.conditions}
    assert set(scores) == expected | MEASURES


def test_splits_and_seeds_are_other_data_for_every_task_of_a_population(small_sizes):
    tasks = [Task(), Task(data_seed=1)]
    model = built(tasks, "modular", 4, [3, 4])
    base = {"task": tasks, "evaluation": small_sizes}
    others = {"split": "validation"}, {"seed": 1}, {"task": Population.of(tasks, [1, 2])}
    scored = [modtf.evaluate(model, **base), *(modtf.evaluate(model, **{**base, **o}) for o in others)]
    assert scored[0] == scored[3]
    assert len({scores["loss"] for one in scored for scores in one}) == 6


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (
            Task(num_rules=3),
            "built for mlp_regression_r2_task0, but received mlp_regression_r3_task0. Give the",
        ),
        (
            [Task()],
            "built for mlp_regression_r2_task0, but received a list of 1 tasks like mlp_regression_r2",
        ),
        (Task("rnn"), "received rnn_regression_r2_task0"),
    ],
)
def test_a_task_of_another_shape_is_refused(task, message):
    with pytest.raises(ValueError, match=message):
        modtf.evaluate(build(Task(), "modular", 4), task)


def test_another_task_of_the_same_shape_is_refused_unless_it_was_trained_on(small_sizes):
    tasks, others = [Task(), Task(data_seed=1)], [Task(), Task(data_seed=2)]
    model = built(tasks, "modular", 4, [0, 0])
    for given in (others, Population.of(others)):
        with pytest.raises(
            ValueError, match=r"built for mlp_regression_r2_task1, but received .*_r2_task2\. "
        ):
            modtf.evaluate(model, given, evaluation=small_sizes)
    model.trained_on = Population.of(others)
    for given in (others, tasks):
        modtf.evaluate(model, given, evaluation=small_sizes)


def test_a_saved_model_knows_the_seeds_of_its_training_data(small_sizes, tmp_path):
    tasks = [Task(num_train=64, data_seed=seed) for seed in range(2)]
    model, sizes = build(tasks, "modular", 4, [0, 0]), replace(small_sizes, conditions=("train_data",))
    untrained = modtf.evaluate(model, tasks, evaluation=sizes)
    assert "trained_on" not in model.get_config()
    model.trained_on = Population.of(tasks, [5, 6])
    model.save(tmp_path / "model.keras")
    loaded = modtf.load_model(tmp_path / "model.keras")
    assert loaded.trained_on == model.trained_on
    trained, saved = (modtf.evaluate(one, tasks, evaluation=sizes) for one in (model, loaded))
    assert trained == saved
    assert all(a["loss_train_data"] != b["loss_train_data"] for a, b in zip(trained, untrained, strict=True))
    assert model.some_members(1, 2).trained_on is None


def test_training_data_are_no_split_of_an_evaluation(member):
    with pytest.raises(ValueError, match="split='train' is not known; expected one of test, validation"):
        modtf.evaluate(member, TASK, split="train")
