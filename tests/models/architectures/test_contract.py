"""The contract of an architecture: `make_layers` and `forward` are enough."""

import keras
import numpy as np
import pytest

from modtf import Task, build
from modtf.base.registry import options_of
from modtf.models import ModularModel
from modtf.models.architectures import ARCHITECTURES, register_architecture
from modtf.tasks.families import FAMILIES

WIDTH = 5


def test_the_example_of_the_documentation_works(arch, variant, documented, random_batch, tmp_path):
    """For every family and router; a member's numbers, its saved copy's, and its arithmetic."""
    plain = documented(ModularModel, "from modtf.models import", "It can read these")["Plain"]
    task, (name, router) = Task(arch, num_rules=3), variant
    model = build([task] * 2, name, WIDTH, [0, 1], architecture="plain", router=router, hidden=7)
    assert type(model) is plain
    assert options_of(plain, "make_layers") == {"hidden": 32}
    features, target = random_batch([task] * 2, seq_len=3)
    outputs = model(features)
    assert outputs["target"].shape == target.shape
    assert outputs["activation"].shape == (*features["rule"].shape, model.num_modules)
    alone = build(task, name, WIDTH, 1, architecture="plain", router=router, hidden=7)
    single = alone({key: value[:, 1] for key, value in features.items()})
    np.testing.assert_allclose(single["target"], outputs["target"][:, 1], rtol=1e-4, atol=1e-5)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.options == {"hidden": 7}
    np.testing.assert_array_equal(loaded(features)["target"], outputs["target"])
    # by hand: both layers' weights, the mixture's biases, the scores; the router's own
    modules, width = model.num_modules, task.token_width + 3
    multiplied = modules * 7 * (width + 1) + (modules if modules > 1 else 0)
    multiplied += modules * 7 if model.router.needs_scores else 0
    multiplied += 3 * modules if model.router.variables else 0
    assert model.forward_flops(num_tokens=4) == 4 * 2 * multiplied


def test_what_is_no_architecture_is_refused(registries):
    with pytest.raises(
        ValueError, match=r"'new' does not define make_layers, forward. Define what modtf\.models"
    ):
        register_architecture("new")(type("New", (ModularModel,), {}))
    assert "new" not in ARCHITECTURES


@pytest.mark.parametrize(
    ("task", "architecture", "message"),
    [
        (Task("rnn"), "mlp", "ModularMLP takes two numbers .* which the family 'rnn' does not have"),
        (Task("rnn", target="state"), "mha", "ModularMHA takes sequences of numbers with a plain number"),
        (
            Task("languages"),
            "rnn",
            "ModularRNN takes tokens of numbers, which the family 'languages' does not",
        ),
    ],
)
def test_an_architecture_for_other_tokens_or_targets(task, architecture, message):
    with pytest.raises(ValueError, match=message):
        build(task, "monolithic", 16, architecture=architecture)


def test_ids_that_the_dtype_cannot_tell_apart(monkeypatch):
    monkeypatch.setattr(FAMILIES["languages"], "num_ids", lambda task: 257)
    with pytest.raises(ValueError, match="dtype='mixed_bfloat16' cannot tell 257 ids of tokens apart"):
        build(Task("languages"), "modular", 8, dtype="mixed_bfloat16")


def test_an_architecture_without_a_router(registries):
    @register_architecture("lost")
    class Lost(ModularModel):
        def make_layers(self):
            pass

        def forward(self, inputs, rule):
            return inputs, rule

    with pytest.raises(ValueError, match=r"Lost.make_layers must set self.router = self.make_router\("):
        build(Task(), architecture="lost")


def test_forward_flops():
    """The mlp's digit encoder reads two digits; for attention the length can be given."""
    mlp = build(Task("mlp", num_rules=2), "gt_modular", 8)
    e, d = 8, 32
    products = 2 * (e + e * e) + 2 * e + e * e + 3 * e * d + d * d + d * 2 + d * e + e
    assert mlp.forward_flops() == 2 * products
    mha = build(Task("mha", num_rules=2), "monolithic", 8)
    products = sum(np.prod(v.shape) for v in mha.trainable_variables if v.name == "kernel")
    heads, k = 4, 8
    for tokens in (None, 7):
        n = tokens or 10
        assert mha.forward_flops(tokens) == 2 * n * products + 2 * 2 * n * n * heads * k
    rnn = build(Task("rnn", num_rules=2), "modular", 8)
    products = sum(np.prod(v.shape) for v in rnn.trainable_variables if v.name == "kernel")
    assert rnn.forward_flops() == 2 * 10 * products


def test_rules_that_start_at_1_are_refused_unless_traced():
    """Their one-hot vectors would be zeros, and so would p of an oracle."""
    model = build(Task(num_rules=3), "gt_modular", WIDTH)
    features = {"inputs": np.ones([3, 2], "float32"), "rule": np.array([1, 2, 3], "int32")}
    with pytest.raises(ValueError, match=r"lies between 1 and 3; expected integers from 0 to 2, .* 3 rules"):
        model(features)
    model({**features, "rule": features["rule"] - 1})
    inputs = {"inputs": keras.Input([2], name="inputs")}
    inputs["rule"] = keras.Input([], dtype="int32", name="rule")
    around = keras.Model(inputs, model(inputs)["activation"])
    around.compile(jit_compile=False)
    assert around.predict(features, verbose=0).sum() == 2
