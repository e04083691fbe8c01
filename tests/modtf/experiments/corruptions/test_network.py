"""The networks have the published sizes, and modules are at the requested positions."""

import keras
import numpy as np
import pytest
from keras import ops

import modtf
from modtf import Population
from modtf.experiments.corruptions.conditions import CORRUPTIONS, code
from modtf.experiments.corruptions.network import Parts, ResNet18, SmallNetwork
from modtf.experiments.corruptions.trainers import ContrastiveLoss
from modtf.training.compile import SettingLoss, compile_model


def count(layer):
    return sum(int(np.prod(variable.shape)) for variable in layer.trainable_variables)


def draw(name):
    return len(name)


@pytest.mark.parametrize(
    ("kind", "width", "classes", "shapes", "sizes"),
    [
        (SmallNetwork, 64, 47, [28], [4_864, 204_928, 819_456, 1_638_656, 524_800, 24_111]),
        (SmallNetwork, 64, 10, [28], [3_197_834]),
        (SmallNetwork, 16, 10, [28], [201_962]),
        pytest.param(ResNet18, 64, 10, [32], [11_181_642], marks=pytest.mark.slow),
    ],
)
def test_a_network_has_the_published_size(kind, width, classes, shapes, sizes):
    parts, x = kind(draw, width, classes).parts(), np.zeros([1, *shapes * 2, 3], np.float32)
    for part in parts:
        x = part(x)
    assert x.shape == (1, classes)
    found = [count(part) for part in parts]
    assert found == sizes if len(sizes) > 1 else sum(found) == sizes[0]


SMALL = [214_595, 204_928, 819_456, 3_277_312, 3_277_312, 525_312]
LARGE = [113_091, *[73_984] * 3, *[295_424] * 2, *[1_180_672] * 2, 4_720_640, 527_360]


@pytest.mark.parametrize(
    ("kind", "side", "expected"),
    [(SmallNetwork, 28, SMALL), pytest.param(ResNet18, 32, LARGE, marks=pytest.mark.slow)],
)
def test_modules_keep_shapes_and_have_the_published_sizes(kind, side, expected):
    network, x = kind(draw, 64, 10), np.zeros([1, side, side, 3], np.float32)
    for site, (part, size) in enumerate(zip(network.parts(), expected, strict=True)):
        module = network.module(site, f"site{site}")
        assert module(x).shape == x.shape
        assert count(module) == size
        x = part(x)


#: sizes of the encoders and decoders of the released code, in PyTorch
@pytest.mark.parametrize(("kind", "side", "size"), [(SmallNetwork, 28, 2_058_243), (ResNet18, 32, 261_315)])
def test_an_autoencoder_keeps_shapes_and_has_the_released_size(kind, side, size):
    made, x = kind(draw, 64, 10).autoencoder("co"), np.zeros([1, side, side, 3], np.float32)
    assert made(x).shape == x.shape
    assert count(made) == size


@pytest.mark.parametrize(
    ("side", "kernel", "stride", "padding"),
    [
        (28, 5, 2, 2),
        (7, 5, 2, 2),
        (4, 5, 2, 2),
        (8, 3, 2, 1),
        (8, 1, 2, 0),
        (8, 3, 2, 2),
        (9, 7, 2, 3),
        (7, 5, 1, 2),
    ],
)
def test_a_convolution_is_padded_alike_on_all_sides(side, kernel, stride, padding):
    """Keras's "same" padding differs with a stride; the published padding begins outside by `padding`."""
    conv = Parts(draw, "part").conv(3, 4, kernel, stride, padding)
    x = np.random.default_rng(0).standard_normal([2, side, side, 3]).astype(np.float32)
    found = ops.convert_to_numpy(conv(x))
    taps, bias = (ops.convert_to_numpy(v) for v in conv.trainable_variables)
    padded = np.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (1, 2))[
        :, ::stride, ::stride
    ]
    np.testing.assert_allclose(found, np.einsum("nijcab,abcf->nijf", windows, taps) + bias, atol=1e-5)
    assert max(np.abs(taps).max(), np.abs(bias).max()) <= 1 / np.sqrt(3 * kernel**2)


def test_a_transposed_convolution_has_the_published_padding():
    back = SmallNetwork(draw, 4, 10).module(0, "back").layers[6]  # of 4 channels, 7 x 7 -> 14 x 14
    small = np.zeros([1, 7, 7, 4], np.float32)
    small[0, 0, 0, 0] = 1.0
    kernel, bias = (ops.convert_to_numpy(v) for v in (back(small), *back.trainable_variables)[1:])
    np.testing.assert_allclose(
        ops.convert_to_numpy(back(small))[0, :3, :3], kernel[2:, 2:, :, 0] + bias, atol=1e-6
    )


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    orders = [(), ("CO",), ("GB", "CO"), ("CO", "GB"), ("SW", "CO", "GB")]
    return {
        "inputs": rng.integers(0, 256, [5, 1, 28, 28, 3]).astype(np.uint8),
        "rule": np.array([[code(order)] for order in orders], np.int32),
    }


def test_a_model_is_the_same_for_the_same_seed(features):
    one, two, other = (modtf.build(modtf.Task("corruptions"), "erm", 4, seed) for seed in (0, 0, 1))
    first, second, third = (ops.convert_to_numpy(m(features)["target"]) for m in (one, two, other))
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()
    assert {k: v.shape for k, v in one(features).items()} == {"features": (5, 1, 32), "target": (5, 1, 10)}


def test_a_step_with_several_losses_is_traced_once(features, monkeypatch):
    population, calls = Population.of(modtf.Task("corruptions"), 0), []
    model = modtf.build(population, "contrastive", 4)
    losses = {"target": SettingLoss("categorical"), "features": ContrastiveLoss(0.5)}
    forward = model.forward

    def counted(*inputs):
        calls.append(inputs)
        return forward(*inputs)

    monkeypatch.setattr(model, "forward", counted)
    compile_model(model, population, modtf.Training(steps=2), loss=losses, steps_per_execution=1)
    outputs, target = model(features), np.zeros([5, 1], np.int32)
    calls.clear()
    both = dict.fromkeys(losses, target)
    model.train_on_batch(features, both)
    assert len(calls) == 1
    known = keras.Model.compute_loss(model, None, both, outputs)
    assert float(model.compute_loss(None, both, outputs)) == pytest.approx(float(known))


def test_told_modules_stand_in_the_order_of_application(features, tmp_path):
    model = modtf.build(modtf.Task("corruptions"), "modular", 4)
    plain = ops.convert_to_numpy(model(features)["features"])
    for name, site in {"CO": 5, "GB": 5, "IM": 2}.items():
        model.attach(name, site, model.module(name, site))
    outputs = model(features)
    found = ops.convert_to_numpy(outputs["features"])
    co, gb = model.module_co, model.module_gb
    expected = [plain[0], co(plain[1]), co(gb(plain[2])), gb(co(plain[3])), gb(co(plain[4]))]
    np.testing.assert_allclose(found, np.stack([ops.convert_to_numpy(e) for e in expected]), atol=1e-6)
    activation = ops.convert_to_numpy(outputs["activation"])[:, 0]
    assert activation[0].tolist() == [1] + [0] * 6
    np.testing.assert_allclose(activation[4], [0, 1 / 3, 1 / 3, 0, 0, 0, 1 / 3], atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(features)["features"], found)
    assert again.options["sites"] == {"CO": 5, "GB": 5, "IM": 2}


def test_autoencoders_restore_images_in_the_order_of_application(features, tmp_path):
    model = modtf.build(modtf.Task("corruptions"), "image_space", 4)
    images = ops.convert_to_tensor(features["inputs"][:, 0] / 127.5 - 1.0, "float32")
    for name in ("CO", "GB"):
        model.attach(name, 0, model.module(name, 0))
    co, gb = model.module_co, model.module_gb
    expected = [images[:1], co(images[1:2]), co(gb(images[2:3])), gb(co(images[3:4])), gb(co(images[4:]))]
    x = model.through(ops.concatenate(expected), 0)
    found = model(features)["target"]
    np.testing.assert_allclose(found[:, 0], x, atol=1e-6)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again(features)["target"], found)


@pytest.mark.parametrize(("label", "value"), [("multi_hot", 1.0), ("mean", 0.5)])
def test_a_label_shifts_the_first_layer(features, label, value):
    """The first layer by hand: five taps of the image, and those of the channels of GB and CO."""
    model = modtf.build(modtf.Task("corruptions"), "labelled", 4, label=label)
    conv = model.parts[0].layers[0]
    kernel, bias = (ops.convert_to_numpy(v) for v in conv.trainable_variables)
    assert kernel.shape == (5, 5, 9, 4)
    image = features["inputs"][2, 0] / 127.5 - 1.0
    planes = np.zeros([28, 28, 6])
    planes[..., :2] = value  # CO and GB, whatever their order
    x = np.concatenate([image, planes], axis=-1)[10:15, 10:15]  # the taps of the output at (6, 6)
    by_hand = np.maximum((x[..., None] * kernel).sum((0, 1, 2)) + bias, 0.0)
    got = model._with_label(
        model.normalised(ops.cast(features["inputs"][:, 0], "float32")), features["rule"][:, 0]
    )
    np.testing.assert_allclose(model.parts[0](got)[2, 6, 6], by_hand, atol=1e-5)
    rest = model.through(got, 0)
    np.testing.assert_allclose(model(features)["target"][:, 0], rest, atol=1e-6)


def test_a_router_chooses_between_seven_modules_and_a_skip(features):
    model = modtf.build(modtf.Task("corruptions"), "routed", 4, site=5)
    outputs = model(features)
    p = ops.convert_to_numpy(outputs["activation"])
    assert p.shape == (5, 1, 8)
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-6)
    other = {**features, "rule": np.zeros_like(features["rule"])}
    np.testing.assert_array_equal(p, model(other)["activation"])  # nobody tells it
    assert len(CORRUPTIONS) == len(model.modules) - 1


def test_what_is_refused():
    task = modtf.Task("corruptions")
    with pytest.raises(ValueError, match="variant='modular_op' routes by the rule"):
        modtf.build(task, "modular_op", 4)
    with pytest.raises(ValueError, match="label='sum' is not known; expected one of multi_hot, mean"):
        modtf.build(task, "labelled", 4, label="sum")
    for variant in ("modular", "erm"):
        with pytest.raises(ValueError, match=f"site=2 has no meaning for variant='{variant}'"):
            modtf.build(task, variant, 4, site=2)
    with pytest.raises(ValueError, match="site=6 is not valid; expected 0 to 5"):
        modtf.build(task, "routed", 4, site=6)


@pytest.mark.parametrize("dtype", ["float64", "mixed_bfloat16"])
def test_another_precision_is_refused(dtype):
    """Its layers are Keras's own, in float32; only the images would be rounded."""
    with pytest.raises(ValueError, match="the network 'corruptions' computes in float32"):
        modtf.build(modtf.Task("corruptions"), "erm", 4, dtype=dtype)
