"""What every model takes and returns, and what its activation and its first weights are."""

import numpy as np

from modtf.models.build import build

WIDTH = 5


def test_shapes_and_probabilities(kind, variant, random_batch):
    (task, options), (name, router) = kind, variant
    model = build([task] * 2, name, WIDTH, [0, 1], dtype="float64", router=router, **options)
    alone = build(task, name, WIDTH, 1, dtype="float64", router=router, **options)
    if router:
        assert model.num_modules == router["modules"] != task.num_rules
    for seq_len in (4, 6) if task.is_sequence else (1,):
        features, target = random_batch([task] * 2, batch=3, seq_len=seq_len)
        outputs = model(features)
        assert set(outputs) == {"target", "activation"}
        assert outputs["target"].shape == target.shape
        assert outputs["activation"].shape == (*features["rule"].shape, model.num_modules)
        p = outputs["activation"].numpy()
        assert p.min() >= 0
        np.testing.assert_allclose(p.sum(-1), 1.0, rtol=1e-12)
        # without the members axis: the same numbers as the second member's
        single = alone({name: value[:, 1] for name, value in features.items()})
        for key in outputs:
            np.testing.assert_allclose(single[key], outputs[key][:, 1], rtol=1e-11, atol=1e-11)


def test_what_the_activation_depends_on(kind, variant, random_batch):
    """The rule alone for those that promise so; the oracle is the rule itself."""
    (task, options), (name, router) = kind, variant
    model = build([task], name, WIDTH, [0], router=router, **options)
    features, _ = random_batch([task], batch=16)
    before = model(features)["activation"].numpy()
    other = model({**features, "inputs": 3.0 * features["inputs"]})["activation"].numpy()
    assert np.array_equal(before, other) == model.router.depends_only_on_rule
    if name == "gt_modular":
        np.testing.assert_array_equal(before, np.eye(task.num_rules)[features["rule"]])
    if model.router.depends_only_on_rule:
        for rule in range(task.num_rules):
            assert len(np.unique(before[features["rule"] == rule].round(6), axis=0)) <= 1


def test_initial_weights(kind, variant):
    """Uniform in +-1/sqrt(fan_in), the same whatever the company, other for another seed or task."""
    (task, options), (name, router) = kind, variant
    population = build([task, task], name, 16, [0, 7], router=router, **options)
    alone = build(task, name, 16, 7, router=router, **options)
    for both, single in zip(population.trainable_variables, alone.trainable_variables, strict=True):
        assert both.path == single.path
        np.testing.assert_array_equal(both.numpy()[1], single.numpy()[0])
        assert not np.any(both.numpy()[0] == both.numpy()[1])
    first = population.layers[0].first.kernel.numpy()
    bound = first.shape[-1] ** -0.5
    assert 0.9 * bound < np.abs(first).max() <= bound


def test_variants_start_alike(kind):
    """Weights of the same name and shape have the same initial values in all variants."""
    task, options = kind
    modular, oracle = (
        {v.path: v.numpy() for v in build(task, variant, WIDTH, **options).trainable_variables}
        for variant in ("modular", "gt_modular")
    )
    assert set(oracle) < set(modular)
    for path, values in oracle.items():
        np.testing.assert_array_equal(values, modular[path])


def test_one_member(kind, variant):
    """The first member alone, with its initial weights."""
    (task, options), (name, router) = kind, variant
    model = build([task, task], name, WIDTH, [4, 7], router=router, **options)
    first = model.some_members(0, 1)
    assert (first.num_members, first.seeds, first.num_modules) == (1, (4,), model.num_modules)
    for both, single in zip(model.trainable_variables, first.trainable_variables, strict=True):
        np.testing.assert_array_equal(both.numpy()[:1], single.numpy())
