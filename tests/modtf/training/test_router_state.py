"""Routers that keep something: in a compiled population, after a kill, and in evaluation."""

from typing import Any

import keras
import numpy as np
import pytest

from modtf.evaluation.evaluator import Evaluator
from modtf.models.build import build
from modtf.population import Population
from modtf.protocol import Evaluation
from modtf.task import Task
from modtf.training.train import train

SIZES = Evaluation(batches=1, batch_size=4, tokens=40, draws=1, tokens_per_draw=40, conditions=())
HOW: dict[str, Any] = {
    "batch_size": 8,
    "evaluations": 2,
    "learning_rate": 1e-2,
    "evaluation": SIZES,
    "verbose": False,
}
TASKS = [Task(num_rules=3, data_seed=i) for i in range(2)]


def weights(model):
    return {v.path.partition("/")[2]: v.numpy() for v in model.weights}


@pytest.fixture
def trained(tmp_path):
    """trained(router, options, task, seed, steps) -> a model after steps of 8 examples."""

    def run(variant, task, seed, **options):
        model = build(task, variant, 4, seed, router=options)
        train(model, task, 4, jit_compile=isinstance(task, list), **HOW)  # compiled where members take turns
        return model

    return run


@pytest.mark.parametrize(("variant", "options"), [("gumbel", {}), ("bias_balanced", {"rate": 0.125})])
def test_a_member_of_a_compiled_population_is_as_alone(variant, options, trained):
    """On a CPU its members take turns: each has its own key, step and bias."""
    together, alone = trained(variant, TASKS, [0, 5], **options), trained(variant, TASKS[1], 5, **options)
    for (name, both), single in zip(weights(together).items(), weights(alone).values(), strict=True):
        np.testing.assert_allclose(both[1], single[0], rtol=1e-4, atol=1e-5, err_msg=name)
    kept = {variable.name: variable.numpy() for variable in together.router.kept}
    if "step" in kept:
        np.testing.assert_array_equal(kept["step"], [4, 4])
    if "bias" in kept:  # multiples of the rate
        assert np.all(kept["bias"] % 0.125 == 0)
        assert np.any(kept["bias"] != 0)
        assert np.abs(kept["bias"]).max() <= 4 * 0.125


def test_a_killed_training_goes_on_with_the_same_noise(trained, tmp_path):
    class Kill(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 1:
                raise KeyboardInterrupt

    whole, file = trained("gumbel", TASKS[0], 0), tmp_path / "checkpoint.npz"
    model = build(TASKS[0], "gumbel", 4, 0)
    with pytest.raises(KeyboardInterrupt):
        train(model, TASKS[0], 4, checkpoint=file, callbacks=[Kill()], jit_compile=False, **HOW)
    resumed = build(TASKS[0], "gumbel", 4, 0)
    train(resumed, TASKS[0], 4, checkpoint=file, jit_compile=False, **HOW)
    for ours, others in zip(whole.weights, resumed.weights, strict=True):
        np.testing.assert_array_equal(ours, others)


def test_evaluation_changes_nothing_and_draws_nothing(trained):
    model = trained("gumbel", TASKS[0], 0)
    before = [v.numpy() for v in model.weights]
    evaluator = Evaluator(model, Population.of(TASKS[0]), SIZES)
    first, second = evaluator.run(), evaluator.run()
    np.testing.assert_array_equal(first.activation, second.activation)
    for ours, earlier in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(ours, earlier)
    features = {"inputs": np.ones([20, 2], "float32"), "rule": np.zeros([20], "int32")}
    assert len(np.unique(model(features)["activation"], axis=0)) == 1
    assert len(np.unique(model(features, training=True)["activation"], axis=0)) > 1


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_the_price_of_scores_is_evaluated_per_member(arch, batches):
    """Where scores stand in the loop, too."""
    tasks = [Task(arch, num_rules=3, data_seed=i) for i in range(2)]
    population = Population.of(tasks, [0, 1])
    model = build(population, "z_loss", 4, router={"strength": 2.0, "modules": 2})
    model.compile(jit_compile=False)
    evaluator = Evaluator(model, population, SIZES)
    found = evaluator.run().rows["router_z", "iid"]
    steps = -(-SIZES.tokens // (SIZES.activation_batch_size * population.family.num_training_tokens))
    for i, task in enumerate(tasks):
        alone = build(task, "z_loss", 4, i, router={"strength": 2.0, "modules": 2})
        expected = []
        for features, _ in batches(task, steps, batch_size=SIZES.activation_batch_size, split="test"):
            sums = np.log(np.exp(alone(features)["scores"].numpy()).sum(axis=-1))
            expected.append(2.0 * np.mean(sums**2))
        np.testing.assert_allclose(found[i], np.mean(expected), rtol=1e-4)


def test_a_choice_among_the_batch_is_sampled():
    """Use under another mix of rules does not follow from the activation matrix."""
    model = build(TASKS[0], "expert_choice", 4)
    evaluator = Evaluator(model, Population.of(TASKS[0]), SIZES)
    assert not evaluator.exact_usage
    assert np.isfinite(evaluator.run().rows["adaptation", "iid"]).all()
