"""The fused models against the textbook form, values and gradients, in float64."""

from types import SimpleNamespace

import numpy as np
import plugin_routers
import pytest
import tensorflow as tf
import textbook

from modtf import Task, build
from modtf.base.registry import options_of
from modtf.models.architectures import ARCHITECTURES
from modtf.models.kernels.rows import LANES
from modtf.models.recurrence import CELLS
from modtf.models.routers import ROUTERS
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import FAMILIES, with_free_rules

WIDTH = 5


def test_everything_has_a_textbook_form():
    """Routers without weights, which run per member, and Keras layers need none."""
    own = {family.architecture for name, family in FAMILIES.items() if name not in with_free_rules()}
    ours = {name for name, one in ARCHITECTURES.items() if one.has_members_axis and name not in own}
    assert set(textbook.ARCHITECTURES) == ours, "write the new architecture in textbook.py"
    assert set(textbook.CELLS) == set(CELLS), "write the new cell in textbook.py"


def compare(model, features, weights):
    """Compare values and gradients of a model with those of its textbook form."""
    found, gradients = [], []
    for function in (model, lambda x: textbook.textbook(model, x)):
        with tf.GradientTape() as tape:
            outputs = function(features)
            value = tf.reduce_sum(weights * outputs["target"]) + tf.reduce_sum(outputs["activation"] ** 2)
        found.append(outputs)
        gradients.append(tape.gradient(value, [v.value for v in model.trainable_variables]))
    for name in ("target", "activation"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-9, atol=1e-9)
    for variable, fused, expected in zip(model.trainable_variables, *gradients, strict=True):
        assert expected is not None, variable.path
        expected = tf.convert_to_tensor(expected)
        np.testing.assert_allclose(fused, expected, rtol=1e-9, atol=1e-9, err_msg=variable.path)
        assert np.any(expected != 0), f"{variable.path} has no influence"


def test_values_and_gradients(kind, variant, random_batch):
    (task, options), (name, router) = kind, variant
    tasks = [task, task]
    model = build(tasks, name, WIDTH, [0, 1], dtype="float64", router=router, **options)
    compare(model, *random_batch(tasks, batch=3, seq_len=3))


@pytest.mark.slow
def test_other_routers(arch, other, random_batch):
    """Values and gradients, with more modules than rules."""
    tasks = [Task(arch, num_rules=3)] * 2
    if ROUTERS[other].sees_batch and tasks[0].is_sequence:
        pytest.skip("the textbook form goes through a sequence token by token")
    if ROUTERS[other].needs_inputs:
        pytest.skip("the textbook form gives routers no inputs; see test_hash_by_signs")
    # `clamped` has a module for every rule
    is_free = "modules" in options_of(ROUTERS[other], "__init__", skip=2)
    router = {"modules": 5} if is_free else {"amount": 0.3}
    model = build(tasks, other, WIDTH, [0, 1], dtype="float64", router=router)
    features, weights = random_batch(tasks, batch=8, seq_len=3)
    for _ in range(2):
        model(features, training=True)  # changes the router's state
    compare(model, features, weights)


def test_hash_by_signs(random_batch):
    """Numbers are hashed by the signs of their projections, for each member with its own directions."""
    tasks = [Task("mha", num_rules=3)] * 2
    model = build(tasks, "hash", WIDTH, [0, 1], router={"modules": 5, "directions": 3})
    features, _ = random_batch(tasks, batch=8, seq_len=4)
    p = np.asarray(model(features)["activation"])
    for member in range(2):
        signs = np.asarray(features["inputs"])[:, member] @ np.asarray(model.router.directions)[member].T > 0
        ids = signs @ [1, 2, 4]
        expected = np.asarray(model.router.table)[member].T[ids]
        np.testing.assert_array_equal(p[:, member], expected)
        assert len(np.unique(ids)) > 4


def test_hash_by_signs_reaches_every_module():
    """Six lines through the plane make 12 of 64 patterns."""
    tasks = [Task("mlp", num_rules=8)] * 4
    model = build(tasks, "hash", WIDTH, [0, 1, 2, 3])
    inputs = np.random.default_rng(0).normal(size=[4000, 4, 2]).astype("float32")
    features = {"inputs": inputs, "rule": np.zeros([4000, 4], "int32")}
    assert (np.asarray(model(features)["activation"]).mean(axis=0) > 0).all()
    with pytest.raises(ValueError, match="has 8 modules for 2 ids"):
        build(tasks, "hash", WIDTH, [0, 1, 2, 3], router={"directions": 1})


@pytest.mark.slow
@pytest.mark.parametrize("variant", plugin_routers.PLUGINS)
@pytest.mark.parametrize("modules", [2, 6])
def test_routers_of_ones_own(arch, variant, modules, plugins, random_batch):
    """They run in the rnn's scan, or step by step with weights; with fewer and more modules than rules."""
    tasks = [Task(arch, num_rules=3)] * 2
    model = build(tasks, variant, WIDTH, [0, 1], dtype="float64", router={"modules": modules})
    compare(model, *random_batch(tasks, batch=3, seq_len=3))


@pytest.mark.parametrize(
    ("task", "width", "batch", "options"),
    [(Task("rnn", num_rules=4), WIDTH, 2 * LANES, {"cell": cell}) for cell in CELLS]
    + [(Task("mha", num_rules=2), 34, 3, {})],
)
def test_sums_in_pieces(task, width, batch, options, random_batch):
    """Whole vectors of a batch in `modtf.models.kernels.rows.lane_sums`; heads and modules that are wide."""
    model = build([task] * 2, "modular", width, [0, 1], dtype="float64", **options)
    compare(model, *random_batch([task] * 2, batch=batch, seq_len=3))


@pytest.mark.parametrize("cell", list(CELLS))
def test_recurrence_without_a_gradient_of_its_own(cell, variant, random_batch):
    """A cell with only `step` runs in Keras's loop."""
    tasks, (name, router) = [Task("rnn", num_rules=3)] * 2, variant
    model = build(tasks, name, WIDTH, [0, 1], dtype="float64", cell=cell, router=router)
    state = model.shared_state
    assert state.can_scan
    names = ("num_gates", "num_states", "step")
    state.cell = SimpleNamespace(**{name: getattr(CELLS[cell], name) for name in names})
    assert not state.can_scan
    compare(model, *random_batch(tasks, batch=3, seq_len=3))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "router"), [*((name, {}) for name in VARIANTS), ("top_k", {"modules": 5})])
def test_recurrence_compiled_for_any_batch(name, router, random_batch):
    """Gradients with one trace for all batch sizes; shapes are unknown until XLA compiles."""
    tasks = [Task("rnn", num_rules=3)] * 2
    model = build(tasks, name, WIDTH, [0, 1], dtype="float64", router=router)
    features, _ = random_batch(tasks, batch=3)
    shapes = {k: tf.TensorSpec([None, *v.shape[1:]], v.dtype) for k, v in features.items()}

    @tf.function(input_signature=[shapes], jit_compile=True)
    def gradients(features):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(model(features)["target"] ** 2)
        return tape.gradient(value, [v.value for v in model.trainable_variables])

    with tf.GradientTape() as tape:
        value = tf.reduce_sum(textbook.textbook(model, features)["target"] ** 2)
    expected = tape.gradient(value, [v.value for v in model.trainable_variables])
    for ours, other in zip(gradients(features), expected, strict=True):
        np.testing.assert_allclose(ours, tf.convert_to_tensor(other), rtol=1e-9, atol=1e-9)
