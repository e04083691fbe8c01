"""Several steps in one program are the same steps."""

import numpy as np
import pytest
import tensorflow as tf

from modtf import Task, build, stream
from modtf.models.kernels.by_device import use_kernels
from modtf.training.arithmetic import BYTES_PER_PROGRAM, largest_divisor
from modtf.training.batches import HostBatches
from modtf.training.execution import (
    steps_of_seconds,
    steps_per_program,
    use_large_programs,
)
from modtf.training.loss import SettingLoss
from modtf.training.optimizer import MemberAdam

STEPS = 12


def weights_after(tasks: Task | list[Task], seeds: int | list[int], large: bool = True) -> list[np.ndarray]:
    """The losses and weights of a short training, in float64."""
    model = build(tasks, "modular", 8, seeds, dtype="float64")
    loss = {"target": SettingLoss(model.tasks[0].setting, dtype="float64")}
    optimizer = MemberAdam(1e-2, model.num_members, 1.0)
    model.compile(optimizer, loss, steps_per_execution=6, jit_compile=True)
    data = stream(tasks, 4, seed=seeds).map(lambda features, target: (features, {"target": target}))
    if large:
        use_large_programs(model, HostBatches(data))
    losses = model.fit(data, epochs=2, steps_per_epoch=STEPS, verbose=0, shuffle=False).history["loss"]
    assert int(optimizer.iterations.numpy()) == 2 * STEPS
    return [
        np.array(losses),
        *(v.numpy() for v in model.variables),
        *(v.numpy() for v in optimizer.variables),
    ]


def assert_same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)  # Keras sums losses up in float32
    for ours, theirs in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_the_same_weights_and_loss_as_keras_finds(arch: str) -> None:
    task = Task(arch, num_rules=2)
    assert_same(weights_after(task, 0), weights_after(task, 0, large=False))


def test_members_in_turn_as_side_by_side() -> None:
    tasks, seeds = [Task(num_rules=2, data_seed=i) for i in range(3)], [5, 6, 7]
    in_turn = weights_after(tasks, seeds)
    with use_kernels("accelerator"):
        assert_same(in_turn, weights_after(tasks, seeds))


def test_keras_is_left_alone_without_xla() -> None:
    model = build(Task(num_rules=2), "modular", 8)
    model.compile(loss="mae", jit_compile=False)
    use_large_programs(model, HostBatches(stream(Task(num_rules=2), 4)))
    assert model.train_function is None


def test_large_models_return_to_python_more_often() -> None:
    small, large = (build(Task(num_rules=2), "modular", width) for width in (8, 64))
    assert steps_of_seconds(small, 256) == 100
    assert steps_of_seconds(large, 10**5) == 2  # 140,000 weights, 6 operations each
    assert steps_of_seconds(large, 10**9) == 1


def test_steps_of_a_program_divide_and_fit_in_memory() -> None:
    def batches(numbers: int) -> HostBatches:
        return HostBatches(tf.data.Dataset.from_tensors((tf.zeros([numbers]), {"target": 0.0})).repeat())

    assert steps_per_program(batches(256), 100) == 20
    assert steps_per_program(batches(256), 7) == 7
    assert steps_per_program(batches(BYTES_PER_PROGRAM // 4 // 3), 100) == 2  # three would fit
    assert steps_per_program(batches(BYTES_PER_PROGRAM), 100) == 1


def test_largest_divisor() -> None:
    assert [largest_divisor(12, n) for n in (1, 5, 6, 7, 100)] == [1, 4, 6, 6, 12]
    assert largest_divisor(13, 12) == 1
