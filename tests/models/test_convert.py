"""`modtf.convert`: the converted model computes the same function; widths that are too small are refused."""

import numpy as np
import pytest

from modtf import Task, convert, stream
from modtf.models.build import build

CASES = [
    ("mlp", {}, ("modular_op", "modular", "monolithic")),
    ("mha", {}, ("modular_op", "modular", "monolithic")),
    pytest.param("rnn", {}, ("modular_op", "modular"), marks=pytest.mark.slow),
    ("rnn", {"cell": "simple"}, ("modular_op", "modular", "monolithic")),
]
WIDTH, RULES = 8, 3


def made(arch, dtype="float64", variant="gt_modular", num_rules=RULES, width=WIDTH, **options):
    tasks = [Task(arch, num_rules=num_rules, data_seed=n) for n in (0, 1)]
    model = build(tasks, variant, width, [0, 5], dtype=dtype, **options)
    features, _ = next(iter(stream(tasks, 64, seed=[0, 5])))
    return model, features


def answers(model, features):
    return {name: np.asarray(value, np.float64) for name, value in model(features).items()}


@pytest.mark.parametrize(("arch", "options", "variants"), CASES)
def test_the_function_stays(arch, options, variants):
    model, features = made(arch, **options)
    expected = answers(model, features)
    assert np.ptp(expected["target"]) > 0.1
    converted = {"gt_modular": model}
    for variant in variants:
        converted[variant] = convert(
            converted["modular_op" if variant == "modular" else "gt_modular"], variant
        )
        found = answers(converted[variant], features)
        np.testing.assert_allclose(found["target"], expected["target"], rtol=0, atol=1e-10, err_msg=variant)
        if variant != "monolithic":
            np.testing.assert_allclose(found["activation"], expected["activation"], atol=1e-10)
    single, features = made(arch, "float32", **options)
    expected = answers(single, features)["target"]
    for variant in variants:
        found = answers(convert(single, variant), features)["target"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * max(1, np.abs(expected).max()))


def test_a_soft_router_becomes_modular():
    model, features = made("mlp", variant="modular_op")
    expected, found = answers(model, features), answers(convert(model, "modular"), features)
    np.testing.assert_allclose(found["activation"], expected["activation"], atol=1e-10)
    np.testing.assert_allclose(found["target"], expected["target"], atol=1e-10)
    with pytest.raises(ValueError, match="needs one-hot p"):
        convert(model, "monolithic")


@pytest.mark.parametrize("width", [8, 4])
def test_a_router_with_fewer_hidden_units_than_rules(width):
    """Two hidden units of the router, or one."""
    model, features = made("mha", "float32", num_rules=8, width=width)
    found = answers(convert(model, "modular_op"), features)
    np.testing.assert_allclose(found["activation"], answers(model, features)["activation"], atol=1e-7)
    np.testing.assert_allclose(found["target"], answers(model, features)["target"], atol=1e-6)


@pytest.mark.parametrize(
    ("arch", "variant", "width", "message"),
    [
        ("mlp", "modular", 10, "width=10 is too small .* it needs 11"),
        ("mha", "monolithic", 10, "it needs"),
        ("rnn", "monolithic", None, "no monolithic rnn of this cell, .* one sequence of rules only"),
        ("mlp", "gt_modular", None, "variant='gt_modular' is not known"),
        ("mlp", "modular_op", 9, "has width=8"),
    ],
)
def test_refuses(arch, variant, width, message):
    with pytest.raises(ValueError, match=message):
        convert(made(arch)[0], variant, width)


def test_other_models_are_refused():
    others = [made("mlp", variant=variant)[0] for variant in ("modular", "monolithic")]
    for model in (*others, made("rnn", architecture="mha")[0], "model"):
        with pytest.raises(ValueError, match="p depends on the rule"):
            convert(model, "modular_op")
