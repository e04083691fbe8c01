"""Builds, trains, saves and loads every architecture with every router; prints the losses as JSON.

Run by `test_backends`, on JAX with TensorFlow out of reach, and imported there for TensorFlow.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

#: those that are not published: asked with the rule, with weights, with a price on scores, with a hard choice
#: and noise from a key and a step that are kept
OWN: dict[str, dict[str, float]] = {
    "plugin_prior": {"modules": 2},
    "cosine": {},
    "z_loss": {"strength": 0.5, "modules": 4},
    "gumbel": {},
}
SCORED = ("z_loss",)  # of them, where all take minutes: every architecture hands out scores its own way
STEPS = 2


def block_tensorflow():
    """From now on importing TensorFlow, or what stands on it, is an error."""

    class Blocked:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in ("tensorflow", "tensorflow_datasets"):
                raise ImportError(f"{name} is blocked")

    sys.meta_path.insert(0, Blocked())


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
    """Family and variant -> the losses of some steps, and the squares of the weights after them.

    Args:
        **how: `jit_compile` or `run_eagerly` of `model.compile`.
    """
    import keras
    import plugin_routers

    import modtf
    from modtf.cell import VARIANTS
    from modtf.families import FAMILIES
    from modtf.models.routers import ROUTERS
    from modtf.training.compile import SettingLoss
    from modtf.training.optimizer import MemberAdam

    if "plugin_prior" not in ROUTERS:
        modtf.register_router("plugin_prior")(plugin_routers.Prior)
    results = {}
    for index, arch in enumerate(FAMILIES):
        tasks = [modtf.Task(arch, num_rules=2, data_seed=i) for i in range(2)]
        features, target = batch(tasks[0])
        for variant in (*VARIANTS, *(OWN if index == 0 else SCORED)):
            model = modtf.build(tasks, variant, 5, [0, 1], router=OWN.get(variant))
            model.compile(
                MemberAdam(0.01, num_members=2, member_clipnorm=1.0),
                loss={"target": SettingLoss("regression")},
                **how,
            )
            losses = [float(model.train_on_batch(features, target)) for _ in range(STEPS)]
            with tempfile.TemporaryDirectory() as folder:
                model.save(Path(folder) / "model.keras")
                loaded = keras.saving.load_model(Path(folder) / "model.keras")
            assert loaded.get_config() == model.get_config()
            for ours, saved in zip(model.trainable_variables, loaded.trainable_variables, strict=True):
                np.testing.assert_array_equal(ours, saved)
            size = sum(float(np.square(np.asarray(v)).sum()) for v in model.trainable_variables)
            results[f"{arch} {variant}"] = [*losses, size]
    return results


if __name__ == "__main__":
    block_tensorflow()
    results = train_all(jit_compile=True)
    import keras

    assert keras.backend.backend() == "jax"
    assert not {"tensorflow", "tensorflow_datasets"} & set(sys.modules)
    print("RESULTS" + json.dumps(results))
