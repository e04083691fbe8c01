"""Models are written with keras.ops alone: on JAX, without TensorFlow, they train and agree with it.

Run as a script it trains every architecture with every router, and prints the losses as JSON.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

#: Unpublished routers: with the rule, with weights, with a penalty on scores, and with a hard choice
#: and noise from a stored key and step.
OWN: dict[str, dict[str, float]] = {"plugin_prior": {"modules": 2}, "cosine": {}, "gumbel": {}}
OWN["z_loss"] = {"strength": 0.5, "modules": 4}
SCORED = ("z_loss",)  # of them, where all take minutes: every architecture hands out scores its own way
STEPS = 2


def batch(task):
    """Features and targets of a population of two."""
    rng = np.random.default_rng(0)
    tokens = [8, 2, *([3] if task.is_sequence else [])]
    features = {
        "inputs": rng.standard_normal([*tokens, task.token_width]).astype(np.float32),
        "rule": rng.integers(task.num_rules, size=tokens).astype(np.int32),
    }
    return features, {"target": rng.standard_normal(tokens).astype(np.float32)}


def train_all(**how):
    """Return, per family and variant, the losses of some steps and the squares of the weights after them.

    Args:
        **how: `jit_compile` or `run_eagerly` of `model.compile`.
    """
    import keras
    import plugin_routers

    import modtf
    from modtf.models.routers import ROUTERS
    from modtf.tasks.cell import VARIANTS
    from modtf.tasks.families import with_free_rules
    from modtf.training.compile import SettingLoss
    from modtf.training.optimizer import MemberAdam

    if "plugin_prior" not in ROUTERS:
        modtf.register_router("plugin_prior")(plugin_routers.Prior)
    results = {}
    for index, arch in enumerate(with_free_rules()):
        tasks = [modtf.Task(arch, num_rules=2, data_seed=i) for i in range(2)]
        features, target = batch(tasks[0])
        for variant in (*VARIANTS, *(OWN if index == 0 else SCORED)):
            model = modtf.build(tasks, variant, 5, [0, 1], router=OWN.get(variant))
            adam = MemberAdam(0.01, num_members=2, member_clipnorm=1.0)
            model.compile(adam, loss={"target": SettingLoss("regression")}, **how)
            losses = [float(model.train_on_batch(features, target)) for _ in range(STEPS)]
            with tempfile.TemporaryDirectory() as folder:
                model.save(Path(folder) / "model.keras")
                loaded = keras.saving.load_model(Path(folder) / "model.keras")
            assert loaded.get_config() == model.get_config()
            np.testing.assert_equal(model.get_weights(), loaded.get_weights())
            size = sum(float(np.square(np.asarray(v)).sum()) for v in model.trainable_variables)
            results[f"{arch} {variant}"] = [*losses, size]
    return results


@pytest.mark.slow
def test_jax_without_tensorflow_agrees_with_tensorflow(registries):
    pytest.importorskip("jax", reason="pip install '.[jax]'")
    from processes import succeeds

    environment = {"KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # programs that run twice
    printed = succeeds(__file__, env=environment)
    jax, tensorflow = json.loads(printed.split("RESULTS")[1]), train_all(run_eagerly=True)
    assert set(jax) == set(tensorflow)
    for name, expected in tensorflow.items():
        np.testing.assert_allclose(jax[name], expected, rtol=1e-4, err_msg=name)


if __name__ == "__main__":
    blocked: dict = dict.fromkeys(("tensorflow", "tensorflow_datasets"))
    sys.modules |= blocked  # importing them is an error
    found = train_all(jit_compile=True)
    print("RESULTS" + json.dumps(found))
