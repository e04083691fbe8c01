"""The form of a kernel that is traced, and equality of whole models in both forms."""

import numpy as np
import pytest

import modtf
from modtf.models.kernels import by_device
from modtf.models.kernels.by_device import kernels, use_kernels


@by_device.by_device(accelerator=lambda x: ("accelerator", x))
def kernel(x):
    return "cpu", x


def test_the_device_decides_unless_someone_else_does(monkeypatch):
    assert kernels() == "cpu"
    with use_kernels("accelerator"):
        assert kernel(1) == ("accelerator", 1)
        with use_kernels("cpu"):
            assert kernel(2) == ("cpu", 2)
        with use_kernels(None):
            assert kernel(3) == ("cpu", 3)
        assert kernels() == "accelerator"
    monkeypatch.setattr(by_device, "on_cpu", lambda: False)
    assert kernels() == "accelerator"
    with use_kernels("cpu"):
        assert kernels() == "cpu"


def test_an_unknown_form_is_refused_and_changes_nothing():
    with pytest.raises(ValueError, match="kernels='gpu' is not known; expected one of cpu, accelerator"):
        use_kernels("gpu").__enter__()
    assert kernels() == "cpu"


@pytest.mark.parametrize("arch", ["mha", "rnn"])
def test_a_model_is_the_same_in_both_forms(arch, random_batch):
    """Covers modules that score themselves, and heads that are wide enough for sums in pieces."""
    tasks = [modtf.Task(arch, num_rules=2)] * 2
    model = modtf.build(tasks, "modular", 18, [0, 1], dtype="float64")
    features, _ = random_batch(tasks, batch=16, seq_len=3)
    expected = model(features)
    with use_kernels("accelerator"):
        found = model(features)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-12)
