"""Several steps in one program are the same steps; a member that turns NaN does the others no harm."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from processes import succeeds

from modtf import Task, Training, build, stream
from modtf.models.kernels.by_device import use_kernels
from modtf.training import execution
from modtf.training.arithmetic import BYTES_PER_PROGRAM, largest_divisor, steps_that_fit
from modtf.training.batches import HostBatches
from modtf.training.compile import SettingLoss, compile_model, training_variables
from modtf.training.execution import steps_of_seconds, use_large_programs
from modtf.training.fit import training_batches
from modtf.training.optimizer import MemberAdam

pytestmark = pytest.mark.xla
STEPS = 12


def weights_after(tasks, seeds, large: bool = True) -> list[np.ndarray]:
    """The losses and weights of a short training, in float64."""
    model = build(tasks, "modular", 8, seeds, dtype="float64")
    loss = {"target": SettingLoss(model.tasks[0].setting, dtype="float64")}
    optimizer = MemberAdam(1e-2, model.num_members, 1.0)
    model.compile(optimizer, loss, steps_per_execution=6, jit_compile=True)
    data = HostBatches(stream(tasks, 4, seed=seeds))
    if large:
        use_large_programs(model, data)
    shown = model.fit(data.feed(1), epochs=2, steps_per_epoch=STEPS, verbose=0, shuffle=False)
    assert int(optimizer.iterations.numpy()) == 2 * STEPS
    variables = [v.numpy() for v in (*model.variables, *optimizer.variables)]
    return [np.array(shown.history["loss"]), *variables]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)  # Keras sums losses up in float32
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("arch", ["mlp", pytest.param("rnn", marks=pytest.mark.slow)])
def test_the_same_weights_and_loss_as_keras_finds(arch: str) -> None:
    task = Task(arch, num_rules=2)
    assert_same(weights_after(task, 0), weights_after(task, 0, large=False))


@pytest.mark.slow
def test_members_in_turn_as_side_by_side() -> None:
    tasks, seeds = [Task(num_rules=2, data_seed=i) for i in range(3)], [5, 6, 7]
    in_turn = weights_after(tasks, seeds)
    with use_kernels("accelerator"):
        assert_same(in_turn, weights_after(tasks, seeds))


class Poison(keras.callbacks.Callback):
    """Makes a weight of the second member infinite after the first epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            weight = self.model.trainable_variables[0]
            values = weight.numpy()
            values[1].flat[0] = np.inf
            weight.assign(values)


@pytest.mark.parametrize("in_turn", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_others_end_as_without_a_member_that_diverges(monkeypatch, in_turn):
    """It is written down with its step."""
    monkeypatch.setattr(execution, "kernels", lambda: execution.CPU if in_turn else "accelerator")
    model = build([Task(num_rules=2, data_seed=i) for i in range(3)], "modular", 4, [0, 1, 2])
    training = Training(steps=8, learning_rate=1e-2, clipnorm=1.0)
    compile_model(model, model.population, training, steps_per_execution=4)
    elements = use_large_programs(model, training_batches(model, model.population, 8))
    model.optimizer.build(model.trainable_variables)
    start, ends = [v.numpy() for v in training_variables(model)], []
    for callbacks in ([], [Poison()]):
        for variable, value in zip(training_variables(model), start, strict=True):
            variable.assign(value)
        model.fit(elements, epochs=2, steps_per_epoch=4, callbacks=callbacks, verbose=0, shuffle=False)
        ends.append([v.numpy() for v in model.trainable_variables])
        assert model.optimizer.diverged_at.numpy().tolist() == ([0, 5, 0] if callbacks else [0, 0, 0])
    for without, poisoned in zip(*ends, strict=True):
        np.testing.assert_array_equal(poisoned[[0, 2]], without[[0, 2]])
    assert any(np.isnan(poisoned[1]).any() for poisoned in ends[1])


def test_one_program_serves_every_rate_of_a_schedule() -> None:
    """The first step of gradient descent is proportional to the rate."""
    model, steps = build([Task(num_rules=2, data_seed=i) for i in range(2)], "monolithic", 4, [0, 1]), []
    start = model.get_weights()
    training = Training(steps=1, optimizer="sgd", schedule="cosine", evaluations=1)
    for rate in (0.125, 0.5):
        model.set_weights(start)
        compile_model(model, model.population, replace(training, learning_rate=rate), steps_per_execution=1)
        elements = use_large_programs(model, training_batches(model, model.population, 8))
        model.fit(elements, steps_per_epoch=1, verbose=0, shuffle=False)
        steps.append([end - before for end, before in zip(model.get_weights(), start, strict=True)])
    assert len(model.compiled_for_training.functions) == 1
    for small, large in zip(*steps, strict=True):
        assert np.abs(small).max() > 0
        np.testing.assert_allclose(large, 4 * small, rtol=1e-3, atol=1e-6)


def test_keras_is_left_alone_without_xla() -> None:
    model = build(Task(num_rules=2), "modular", 8)
    model.compile(loss="mae", jit_compile=False)
    use_large_programs(model, HostBatches(stream(Task(num_rules=2), 4)))
    assert model.train_function is None


def test_how_many_steps_a_program_takes() -> None:
    """Large models return to Python more often; what a program reads divides and fits in memory."""

    def batches(numbers: int) -> HostBatches:
        return HostBatches(tf.data.Dataset.from_tensors((tf.zeros([numbers]), {"target": 0.0})).repeat())

    small, large = (build(Task(num_rules=2), "modular", width) for width in (8, 64))
    assert steps_of_seconds(small, 256) == 100
    assert steps_of_seconds(large, 10**5) == 2  # 140,000 weights, 6 operations each
    assert steps_of_seconds(large, 10**9) == 1
    assert steps_that_fit(batches(256).bytes_per_step, 100) == 20
    assert steps_that_fit(batches(256).bytes_per_step, 7) == 7
    assert steps_that_fit(batches(BYTES_PER_PROGRAM // 4 // 3).bytes_per_step, 100) == 2  # three would fit
    assert steps_that_fit(batches(BYTES_PER_PROGRAM).bytes_per_step, 100) == 1
    uneven = tf.data.Dataset.range(5).map(lambda n: (n, n)).batch(2)
    with pytest.raises(
        ValueError, match=r"must have the same shape, .* `.batch\(..., drop_remainder=True\)`"
    ):
        _ = HostBatches(uneven).bytes_per_step
    assert [largest_divisor(12, n) for n in (1, 5, 6, 7, 100)] == [1, 4, 6, 6, 12]
    assert largest_divisor(13, 12) == 1


SCRIPT = """
import modtf
from modtf.models.architectures import ARCHITECTURES

model_class, traces = ARCHITECTURES["mlp"], []
call = model_class.call
model_class.call = lambda self, features, training=None: (
    traces.append(features["inputs"].shape) or call(self, features, training)
)
tasks = [modtf.Task("mlp", num_rules=2, data_seed=i % 5) for i in range({members})]
model = modtf.build(tasks, "modular", 8, list(range({members})))
traces.clear()

modtf.train(model, tasks, 8, batch_size=4, evaluations=2, evaluation=modtf.Evaluation(batches=1, tokens=8,
            draws=1, tokens_per_draw=8, batch_size=8, conditions=("iid",)), verbose=False)
print("traces", len([shape for shape in traces if shape[0] == 4]))
"""


@pytest.mark.slow
def test_a_population_compiles_once(tmp_path):
    """One trace, one program, whatever its size (goal 5)."""
    traces = []
    for members in (1, 6):
        dump = tmp_path / str(members)
        environment = {"XLA_FLAGS": f"--xla_dump_to={dump}", "TF_CPP_MIN_LOG_LEVEL": "3"}
        printed = succeeds("-c", SCRIPT.format(members=members), env=environment)
        traces.append(int(printed.split("traces")[-1]))
        programs = [p.name for p in dump.glob("*after_optimizations.txt") if "training_program" in p.name]
        assert len(programs) == 1
    assert 1 <= traces[1] <= traces[0]
