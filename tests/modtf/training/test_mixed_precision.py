"""Products in bfloat16; what must not lose precision stays in float32."""

from dataclasses import replace

import keras
import numpy as np
import pytest

import modtf
from modtf import Population, Training
from modtf.training.compile import compile_model

STEPS = 3


def trained(arch, variant, training):
    """Losses of some steps on one batch, and the model."""
    tasks = [modtf.Task(arch, num_rules=2, data_seed=i) for i in range(2)]
    model = modtf.build(tasks, variant, 8, [0, 1], dtype=training.dtype)
    compile_model(model, Population.of(tasks), training, jit_compile=False, steps_per_execution=1)
    model.run_eagerly = True
    features, target = next(iter(modtf.stream(tasks, 16)))
    losses = [float(model.train_on_batch(features, {"target": target})) for _ in range(STEPS)]
    return losses, model, model(features)


@pytest.mark.parametrize("variant", ["modular", pytest.param("modular_op", marks=pytest.mark.slow)])
def test_as_float32_but_for_rounding(arch, variant):
    training = Training(steps=STEPS, learning_rate=1e-2, clipnorm=1.0)
    expected, _, exact = trained(arch, variant, training)
    losses, model, outputs = trained(arch, variant, replace(training, precision="mixed_bfloat16"))
    assert model.compute_dtype == "bfloat16"
    assert {v.dtype for v in [*model.variables, *model.optimizer.variables]} <= {"float32", "int64"}
    assert model.router.compute_dtype == "float32"
    np.testing.assert_allclose(losses, expected, rtol=0.02)
    assert losses != expected
    for name, found in outputs.items():
        assert found.dtype == "float32"
        np.testing.assert_allclose(found, exact[name], atol=0.05)
    np.testing.assert_allclose(np.sum(outputs["activation"], axis=-1), 1.0, atol=1e-6)


@pytest.mark.parametrize("hard", [False, True])
def test_fixed_routing_is_that_of_float32(hard):
    """Noise in bfloat16 rounds to 1 for one token in 500, which then reached no module."""
    task, options = modtf.Task(num_rules=4), {"amount": 0.3, "hard": hard}
    features, _ = next(iter(modtf.stream(task, 2000)))
    exact, mixed = (
        modtf.build(task, "clamped", 8, router=options, dtype=dtype)(features)["activation"]
        for dtype in ("float32", "mixed_bfloat16")
    )
    np.testing.assert_array_equal(mixed, exact)


def test_a_recurrence_receives_noise_and_biases_in_float32():
    task, options = modtf.Task("rnn"), {"start": 1.003}
    router = modtf.build(task, "annealed", 8, router=options, dtype="mixed_bfloat16").router
    given = np.asarray(router.with_extra(keras.ops.ones([1, 2, 3], "bfloat16")))
    np.testing.assert_allclose(given[0, :, 0], [1, 1, 1.003])


def test_a_model_of_another_precision_is_refused():
    message = "precision='mixed_bfloat16' needs a model with dtype='mixed_bfloat16'"
    with pytest.raises(ValueError, match=message):
        modtf.train(modtf.build(modtf.Task(), width=4), modtf.Task(), 2, precision="mixed_bfloat16")
