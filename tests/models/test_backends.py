"""Models are written with keras.ops alone; on JAX they train and agree with TensorFlow."""

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import modtf.models
from modtf.models.architectures import ARCHITECTURES


def train_all():
    """Trains every architecture for a few steps; returns the losses and measures. Runs in either process."""
    import keras
    import numpy as np

    import modtf
    from modtf.models.architectures import ARCHITECTURES

    results = {}
    sizes = modtf.Evaluation(batches=1, batch_size=8, tokens=80, draws=5, tokens_per_draw=80, lengths=())
    for arch in ARCHITECTURES:
        tasks = [modtf.Task(arch=arch, num_rules=2, data_seed=i) for i in range(2)]
        model = modtf.build(tasks, width=5, seed=[0, 1])
        features, target = next(iter(modtf.stream(tasks, 64, "test", [0, 1])))
        outputs = model.predict_on_batch({name: value.numpy() for name, value in features.items()})
        error = np.abs(outputs["target"] - target.numpy())
        history = modtf.train(
            model, tasks, 3, batch_size=8, evaluations=1, steps_per_execution=3, learning_rate=0.01,
            evaluation=sizes, verbose=False, jit_compile=keras.backend.backend() == "jax",
        ).history  # fmt: skip
        results[arch] = {
            "before": float(error.mean()),
            **{k: list(map(float, v)) for k, v in history.items()},
        }
    return results


def test_jax_agrees_with_tensorflow():
    pytest.importorskip("jax", reason="pip install modtf[jax]")
    code = f"""import json, keras\n{inspect.getsource(train_all)}
assert keras.backend.backend() == "jax"
print("RESULTS" + json.dumps(train_all()))"""
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    jax, tensorflow = json.loads(result.stdout.split("RESULTS")[1]), train_all()
    assert set(jax) == set(tensorflow) == set(ARCHITECTURES)
    for arch, expected in tensorflow.items():
        found = jax[arch]
        assert found.keys() == expected.keys()
        np.testing.assert_allclose(found["before"], expected["before"], rtol=1e-5, err_msg=arch)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-3, atol=1e-3, err_msg=f"{arch} {name}")


def test_models_import_no_backend():
    folder = Path(modtf.models.__file__).parent
    files = list(folder.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            backends = {name.split(".")[0] for name in names} & {"tensorflow", "jax", "torch"}
            assert not backends, f"{path}: {backends}"
