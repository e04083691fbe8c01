"""Architectures without a members axis, made of Keras layers, with several routed layers."""

from functools import partial

import keras
import numpy as np
import pytest
from keras import ops
from registering import forgotten

import modtf
from modtf import Task, build, load_model
from modtf.models import ModularModel
from modtf.models.architectures import ARCHITECTURES
from modtf.tasks.families import FAMILIES
from modtf.tasks.family import Variant
from modtf.tasks.observed import Place

R, CLASSES = 3, 5


@pytest.fixture(scope="module", autouse=True)
def forget():
    with forgotten(FAMILIES, ARCHITECTURES):
        yield


@pytest.fixture(scope="module", autouse=True)
def registered(forget):
    """Register a model of 6 x 6 images with two calls at one routed layer and one call at another."""

    @modtf.register_architecture("little_images")
    class LittleImages(ModularModel):
        has_members_axis, compiled_by_xla = False, False

        def make_layers(self, filters=4):
            self.see = keras.layers.Conv2D(filters, 3, strides=2, activation="relu")
            self.make_router(self.num_rules, place="leaf")
            self.make_router(self.num_rules, place="root")
            self.score = {name: keras.layers.Dense(r.num_modules) for name, r in self.routers.items()}
            self.answer = keras.layers.Dense(self.target_width)

        def forward(self, inputs, rule):
            seen = ops.mean(self.see(inputs / 255.0), axis=(1, 2))
            found: dict = {}
            for place, part in (("leaf", rule[:, :2]), ("root", rule[:, 2:])):
                tokens = ops.repeat(seen[:, None], part.shape[1], axis=1)
                scores = self.score[place](tokens)
                p, _ = self.route_with_scores(part, None, partial(ops.copy, scores), place)
                found |= {f"activation_{place}": p, f"scores_{place}": scores}
                seen = seen + ops.mean(p, axis=(1, 2))[:, None]
            return {"target": self.answer(seen), **found}

    @modtf.register_family("little_images")
    class Images(modtf.Family):
        title, data, architecture, settings = "Images", "no_such:Data", "little_images", ("categorical",)
        input_dtype, inputs_by_token, target_by_token, training_length = "uint8", False, False, 3
        conditions, headline = (modtf.Condition("iid", "as in training", True),), "iid"
        variants = (
            Variant("scored", router="modular"),
            Variant("oracle", router="gt_modular", model={"filters": 2}),
            Variant("priced", router="z_loss", model={"router.modules": 4}),
        )
        reference, oracle = "scored", "oracle"

        def token_shape(self, task):
            return 6, 6, 1

        def num_classes(self, task):
            return CLASSES

        def places(self, task):
            return {
                "leaf": Place("leaf", R, tokens=(0, 1)),
                "root": Place("root", 1, tokens=(2,), rules=(0, 0, 0)),
            }

        def published(self, task):
            raise NotImplementedError

        quick = published


@pytest.fixture(scope="module")
def task():
    return Task("little_images", "categorical", num_rules=R)


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, [7, 6, 6, 1], dtype=np.uint8)
    return {"inputs": images, "rule": rng.integers(0, R, [7, 3], dtype=np.int32)}


def test_every_place_has_its_router_and_every_output_its_shape(task, features):
    model = build(task, "scored", 8)
    outputs = {name: ops.convert_to_numpy(value) for name, value in model(features).items()}
    assert outputs["target"].shape == (7, CLASSES)
    assert (outputs["activation_leaf"].shape, outputs["activation_root"].shape) == ((7, 2, R), (7, 1, 1))
    np.testing.assert_allclose(outputs["activation_leaf"].sum(-1), 1, rtol=1e-5)
    assert model.num_parameters == 3 * 3 * 4 + 4 + (4 + 1) * (R + 1) + (4 + 1) * CLASSES
    assert model.num_modules == R
    oracle = build(task, "oracle", 8)(features)
    np.testing.assert_array_equal(oracle["activation_leaf"], np.eye(R)[features["rule"][:, :2]])
    np.testing.assert_array_equal(oracle["activation_root"], 1)


def test_what_a_variant_fixes_is_fixed(task):
    assert build(task, "oracle", 8).see.filters == 2
    assert {r.num_modules for r in build(task, "priced", 8).routers.values()} == {4}
    for options in ({"filters": 3}, {"router": {"modules": 2}}):
        with pytest.raises(ValueError, match=r"fixes .*=.\. Leave it out"):
            build(task, "oracle" if "filters" in options else "priced", 8, **options)
    said = "variant='other' is not known; expected one of scored, oracle, priced, m"
    with pytest.raises(ValueError, match=said):
        build(task, "other", 8)


def test_the_price_of_every_place_is_paid(task, features):
    model = build(task, "priced", 8)
    model(features, training=True)
    scores = [ops.convert_to_numpy(model(features)[f"scores_{place}"]) for place in ("leaf", "root")]
    expected = sum(1e-3 * np.mean(np.log(np.exp(s).sum(-1)) ** 2) for s in scores)
    np.testing.assert_allclose(float(sum(model.losses)), expected, rtol=1e-4)


def test_it_begins_from_task_and_seed_and_is_read_back(task, features, tmp_path):
    model, again, other = (build(task, "scored", 8, seed) for seed in (1, 1, 2))
    np.testing.assert_equal(model.get_weights(), again.get_weights())
    assert (model.see.kernel.numpy() != other.see.kernel.numpy()).any()
    model.save(tmp_path / "model.keras")
    loaded = load_model(tmp_path / "model.keras")
    for name, value in model(features).items():
        np.testing.assert_array_equal(loaded(features)[name], value)


def test_a_population_is_refused(task):
    with pytest.raises(ValueError, match=r"no members axis, but received a list of 2 tasks"):
        build([task, task.replace(data_seed=1)], "scored", 8)


def rules_without_an_axis(self, inputs, rule):
    seen = ops.concatenate([ops.mean(inputs, axis=(1, 2)), ops.one_hot(rule, R)], axis=1)
    return {"target": seen}


def activation_without_an_axis(self, inputs, rule):
    p = self.route(rule, None, lambda: ops.zeros([rule.shape[0], 1, R]), "")
    return {"target": ops.zeros([rule.shape[0], CLASSES]), "activation": p[:, 0]}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (rules_without_an_axis, "failed in line .*: .*"),
        (
            activation_without_an_axis,
            r"returned activation \(2, 3\); expected \[B, N, M\], as self.route returns",
        ),
        (lambda self, inputs, rule: {"answer": inputs}, "returned answer; expected a target among them"),
    ],
)
def test_a_wrong_assumption_about_shapes_is_one_line(wrong, words):
    """Even an example that is not a sequence has rules [B, 1]."""

    class Mistaken(ModularModel):
        has_members_axis = False

        def make_layers(self):
            self.router = self.make_router(self.num_rules)

        def forward(self, inputs, rule):
            return wrong(self, inputs, rule)

    with forgotten(FAMILIES, ARCHITECTURES):
        modtf.register_architecture("mistaken")(Mistaken)

        own = {"is_sequence": False, "architecture": "mistaken", "places": lambda self, task: None}
        own |= {"inputs_by_token": True, "target_by_token": True}
        single = type("Single", (type(FAMILIES["little_images"]),), own)
        modtf.register_family("single_images")(single)
        came = r"Mistaken.forward, given inputs \(2, 6, 6, 1\) float32 and rule \(2, 1\) int32 \[B, N\], "
        with pytest.raises(ValueError, match=f"^{came}{words}") as caught:
            build(Task("single_images", num_rules=R), "scored")
    assert "\n" not in str(caught.value)
