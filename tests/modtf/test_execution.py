"""Several steps in one program are the same steps."""

import numpy as np
import pytest
import tensorflow as tf

from modtf import Task, build, stream
from modtf.execution import BYTES_PER_PROGRAM, largest_divisor, steps_per_program, use_large_programs
from modtf.losses import SettingLoss
from modtf.optimizer import MemberAdam

STEPS = 12


def weights_after(task: Task, large: bool, **options) -> list[np.ndarray]:
    model = build(task, "modular", 8, dtype="float64")
    loss = {"target": SettingLoss(task.setting, dtype="float64")}
    model.compile(MemberAdam(1e-2, 1, 1.0), loss, steps_per_execution=6, **options)
    data = stream(task, 4).map(lambda features, target: (features, {"target": target}))
    if large:
        use_large_programs(model, data)
    history = model.fit(data, steps_per_epoch=STEPS, verbose=0, shuffle=False)
    return [np.array(history.history["loss"]), *(v.numpy() for v in model.trainable_variables)]


@pytest.mark.parametrize("arch", ["mlp", "rnn"])
def test_the_same_weights_and_loss_as_keras_finds(arch: str) -> None:
    task = Task(arch, num_rules=2)
    pairs = zip(*(weights_after(task, large, jit_compile=True) for large in (True, False)), strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_keras_is_left_alone_without_xla() -> None:
    model = build(Task(num_rules=2), "modular", 8)
    model.compile(loss="mae", jit_compile=False)
    use_large_programs(model, stream(Task(num_rules=2), 4))
    assert model.train_function is None


def test_steps_of_a_program_divide_and_fit_in_memory() -> None:
    def batches(numbers: int) -> tf.data.Dataset:
        return tf.data.Dataset.from_tensors(tf.zeros([numbers])).repeat()

    assert steps_per_program(batches(256), 100) == 20
    assert steps_per_program(batches(256), 7) == 7
    assert steps_per_program(batches(BYTES_PER_PROGRAM // 4 // 3), 100) == 2  # three would fit
    assert steps_per_program(batches(BYTES_PER_PROGRAM), 100) == 1


def test_largest_divisor() -> None:
    assert [largest_divisor(12, n) for n in (1, 5, 6, 7, 100)] == [1, 4, 6, 6, 12]
    assert largest_divisor(13, 12) == 1
