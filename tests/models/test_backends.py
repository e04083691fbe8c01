"""Models are written with keras.ops alone: on JAX, without TensorFlow, they train and agree with it."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import train_everywhere

import modtf.models
from modtf.families import FAMILIES

CHOOSES_BY_BACKEND = {"vjp.py", "gradients.py", "by_device.py"}  # and import the one that runs


@pytest.mark.slow
def test_jax_without_tensorflow_agrees_with_tensorflow(registries):
    pytest.importorskip("jax", reason="pip install modtf[jax]")
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(sys.path)}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # programs that run twice
    result = subprocess.run(
        [sys.executable, train_everywhere.__file__],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr[-3000:]
    jax = json.loads(result.stdout.split("RESULTS")[1])
    tensorflow = train_everywhere.train_all(run_eagerly=True)
    assert set(jax) == set(tensorflow)
    assert len(jax) == len(FAMILIES) * 5 - 1 + len(train_everywhere.OWN)
    for name, expected in tensorflow.items():
        np.testing.assert_allclose(jax[name], expected, rtol=1e-4, err_msg=name)


def imports(path):
    """The packages that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (name.split(".")[0] for name in names)


def test_models_import_no_backend():
    files = list(Path(modtf.models.__file__).parent.rglob("*.py"))
    assert len(files) > 10
    for path in files:
        backends = set(imports(path)) & {"tensorflow", "jax", "torch"}
        assert not backends or path.name in CHOOSES_BY_BACKEND, f"{path}: {backends}"


LISTED = """
import sys
import modtf.models
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.sizes import check_width
from modtf.models.routers import ROUTERS
assert list(ROUTERS) and list(ARCHITECTURES)
check_width("mlp", 32, 8)
assert not {"keras", "tensorflow", "jax"} & set(sys.modules), "a list of names needs no Keras"
from modtf.models import ModularModel, Router, RouterSetup
assert "keras" in sys.modules and issubclass(Router, sys.modules["keras"].layers.Layer)
"""


def test_names_are_listed_without_keras():
    result = subprocess.run([sys.executable, "-c", LISTED], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
