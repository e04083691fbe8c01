"""The networks of VQA-MNIST: hard routing equal to the mixture, a plain form."""

from functools import cache

import keras
import numpy as np
import pytest
import tensorflow as tf

import modtf
from modtf.experiments.questions.library import Library
from modtf.experiments.questions.question import QUESTIONS
from modtf.models.kernels.by_device import use_kernels

WIDTH = 4


def task_of(question):
    return modtf.Task("vqa_mnist", question=question, examples=2520)


@cache
def batch(question, size=12):
    return next(iter(modtf.stream(task_of(question), size)))


def library(question, name, variant="gt_modular", **options):
    return modtf.build(task_of(question), variant, WIDTH, library=name, **options)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("attribute", "all_group_group"),
        ("multiple", "all_all_all_bn"),
        ("comparison", "sub_mixed_all"),
        ("comparison", "sub_subfind_sub"),
        ("spatial", "all_sub_all_bn"),
    ],
)
def test_models_are_as_large_as_their_library_says(question, name):
    model = library(question, name)
    assert model.num_parameters == Library.of(name, question).num_parameters(WIDTH)
    features, target = batch(question)
    outputs = model(features)
    assert outputs["target"].shape == (len(target), 2)
    for place in task_of(question).places.values():
        p = outputs[place.output]
        assert p.shape[:2] == (len(target), len(place.tokens))
        np.testing.assert_array_equal(np.sum(p, axis=-1), 1)


@pytest.mark.parametrize("question", ["attribute", "comparison"])
def test_slices_answer_as_sorted_examples_do(question):
    """In batches of questions in turn, and in others."""
    features, _ = batch(question, 2 * QUESTIONS[question].num_questions)
    mixed = {name: np.array(value)[::-1] for name, value in features.items()}
    model = library(question, "group_sub_group")
    for each in (features, mixed):
        with use_kernels("cpu"):
            slices = model(each)["target"]
        with use_kernels("accelerator"):
            np.testing.assert_allclose(model(each)["target"], slices, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernels", ["cpu", "accelerator"])
def test_batch_normalisation_counts_a_modules_own_examples(kernels):
    """An unused module keeps its moving averages; a used module's averages cover only its examples."""
    model = library("attribute", "group_all_group_bn")
    layer = model.banks["encoder"][0][1]
    features, _ = batch("attribute", 21)
    some = {name: value[:15] for name, value in features.items()}  # digits and colours, no light, no size
    with use_kernels(kernels):
        model(some, training=True)
    mean = np.array(layer.parts["conv0_mean"])
    np.testing.assert_array_equal(mean[2:], 0)
    own = tf.nn.conv2d(features["inputs"][:10], layer.parts["conv0_kernel"][0], 1, "SAME")
    np.testing.assert_allclose(mean[0], 0.1 * np.mean(own, axis=(0, 1, 2)), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(layer.parts["conv0_variance"][3], 1)


def plain(weights, x, name):
    """Compute a 3 x 3 convolution of one module by hand."""
    return tf.nn.conv2d(x, weights[f"{name}_kernel"][0], 1, "SAME") + weights[f"{name}_bias"][0]


def test_one_call_is_what_the_equations_say():
    model = library("attribute", "all_all_all")
    features, _ = batch("attribute")
    encoder, find, last = (model.banks[place][0][1].parts for place in ("encoder", "module", "classifier"))
    x = features["inputs"]
    for number in range(6):
        x = tf.nn.relu(plain(encoder, x, f"conv{number}"))
        if number in (1, 3):
            x = tf.nn.max_pool2d(x, 2, 2, "VALID")
    both = tf.concat([tf.zeros_like(x), x], -1)
    u = tf.nn.relu(both @ find["projection_kernel"][0] + find["projection_bias"][0])
    scales = tf.gather(tf.convert_to_tensor(model.scales), features["rule"][:, 0])
    h = tf.nn.relu(plain(find, scales[:, None, None] * u, "conv"))
    first = tf.reduce_max(tf.nn.relu(h @ last["first_kernel"][0] + last["first_bias"][0]), [1, 2])
    second = tf.nn.relu(first @ last["second_kernel"][0] + last["second_bias"][0])
    logits = second @ last["last_kernel"][0] + last["last_bias"][0]
    np.testing.assert_allclose(model(features)["target"], logits, rtol=1e-4, atol=1e-5)


def test_a_tree_of_residuals_is_what_the_equations_say():
    """The root of "comparison": left and right by the Residuals of their own sub-tasks."""
    model = library("comparison", "all_sub_all")
    layer = model.banks["module"][0][1]
    generator = np.random.default_rng(0)
    left, right = (tf.constant(generator.normal(size=[1, 7, 7, WIDTH]), tf.float32) for _ in range(2))
    modules, _ = layer.functions(training=False)
    w = {name: value[9:10] for name, value in ((n, tf.convert_to_tensor(v)) for n, v in layer.parts.items())}
    both = tf.concat([left, right], -1)
    t = tf.nn.relu(both @ w["projection_kernel"][0] + w["projection_bias"][0])
    h = tf.nn.relu(t + plain(w, tf.nn.relu(plain(w, t, "conv1")), "conv2"))
    np.testing.assert_allclose(modules[9](left, right), h, rtol=1e-4, atol=1e-5)


def test_batch_normalisation_is_keras_own():
    model = library("attribute", "all_all_all_bn")
    layer = model.banks["encoder"][0][1]
    x = tf.constant(np.random.default_rng(0).normal(1, 2, size=[6, 3, 3, WIDTH]), tf.float32)
    of_keras = keras.layers.BatchNormalization(epsilon=1e-5, momentum=0.9)
    w = {name: value[0] for name, value in layer.parts.items()} | {"training": True, "seen": {}}
    normalised = layer.normalise(x, w, "conv0")
    np.testing.assert_allclose(normalised, tf.nn.relu(of_keras(x, training=True)), atol=1e-5)
    np.testing.assert_allclose(w["seen"]["conv0_mean"], of_keras.moving_mean, atol=1e-6)
    unbiased = 0.9 + 0.1 * np.var(x, axis=(0, 1, 2), ddof=1)  # as PyTorch has it
    np.testing.assert_allclose(w["seen"]["conv0_variance"], unbiased, rtol=1e-5)
    features, _ = batch("attribute")
    for training in (False, True):
        before = [np.array(v) for v in model.non_trainable_variables]
        model(features, training=training)
        pairs = zip(before, model.non_trainable_variables, strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs) is not training


@pytest.mark.parametrize("kernels", ["cpu", "accelerator"])
@pytest.mark.parametrize("name", ["all_all_all_bn", "group_all_group_bn"])
def test_bfloat16_keeps_statistics_and_logits_in_float32(name, kernels):
    """Two updates by one batch are 0.1 and 0.19 of its mean."""
    model = library("attribute", name, dtype="mixed_bfloat16")
    mean, features = model.banks["encoder"][0][1].parts["conv0_mean"], batch("attribute")[0]
    seen = []
    for _ in range(2):
        with use_kernels(kernels):
            target = model(features, training=True)["target"]
        seen.append(np.array(mean))
    np.testing.assert_allclose(seen[1], 1.9 * seen[0], rtol=1e-5)
    assert np.any(seen[0])
    assert target.dtype == "float32"


@pytest.mark.parametrize(
    ("variant", "name", "modules"),
    [
        ("modular_op", "routed_all_all", 4),
        ("modular", "routed_routed_routed", 4),
        ("top_k", "all_all_routed", 4),
        ("switch", "all_routed_group", 8),
    ],
)
def test_any_router_at_any_place(variant, name, modules):
    model = library("comparison", name, variant)
    features, _ = batch("comparison")
    with tf.GradientTape() as tape:
        outputs = model(features, training=True)
        loss = tf.reduce_sum(outputs["target"] ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    place = next(iter(model.routers))
    p = np.array(outputs[f"activation_{place}"])
    assert p.shape[-1] == modules
    np.testing.assert_allclose(p.sum(axis=-1), 1, atol=1e-5)
    of_router = {w.path for router in model.routers.values() for w in router.trainable_variables}
    seen = {w.path for w, g in zip(model.trainable_variables, gradients, strict=True) if g is not None}
    assert of_router <= seen


def test_a_router_may_have_other_numbers_of_modules():
    routers = [{"modules": modules} for modules in (3, 4, 6)]
    models = [library("attribute", "routed_all_all", "modular_op", router=router) for router in routers]
    assert models[2](batch("attribute")[0])["activation_encoder"].shape[-1] == 6
    assert {len(model.trainable_variables) for model in models} == {25}  # none for modules without calls
    three, four, six = (model.num_parameters for model in models)
    assert six - four == 2 * (four - three) > 0


def test_libraries_share_what_they_have_in_common(tmp_path):
    one, other = library("attribute", "all_all_all"), library("attribute", "group_all_all")
    for place in ("module", "classifier"):
        shared = (model.banks[place][0][1].variables for model in (one, other))
        assert all(np.array_equal(a, b) for a, b in zip(*shared, strict=True))
    np.testing.assert_array_equal(one.scales, other.scales)
    path = tmp_path / "model.keras"
    other.save(path)
    features, _ = batch("attribute")
    loaded = keras.saving.load_model(path)
    np.testing.assert_array_equal(loaded(features)["target"], other(features)["target"])


def test_flops_of_an_example():
    """By hand, for one image and two calls of Residual and Find."""
    e, side = WIDTH, 28
    encoder = 9 * 3 * e * side**2 + 9 * e * e * (side**2 + 2 * 14**2 + 2 * 7**2)
    find, classifier = 49 * (e * e + 9 * e * e), 49 * 8 * e * e + 128 * e * e + 32 * e
    assert library("attribute", "group_all_all").forward_flops() == 2 * (encoder + find + classifier)
    routed = library("attribute", "routed_all_all", "modular_op").forward_flops()
    assert routed == 2 * (4 * encoder + find + classifier)
    root = 49 * (2 * e * e + 9 * e * e)
    tree = library("comparison", "all_all_all").forward_flops()
    assert tree == 2 * (2 * encoder + 2 * find + root + classifier)


def test_every_named_variant_of_the_family_is_a_library():
    family = task_of("comparison").family
    for variant in family.variants:
        name = (variant.model or {}).get("library", "routed_all_all")
        for question in QUESTIONS if "mixed" not in name else ["comparison"]:
            assert Library.of(name, question).num_parameters(64) > 0
    assert [v.name for v in family.variants if v.by_default][-1] == "routed"
