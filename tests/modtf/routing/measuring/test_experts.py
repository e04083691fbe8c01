"""Experts of every token give the same measures as gates of all experts."""

import numpy as np
import pytest

from modtf import measure_activations
from modtf.routing.measuring import ActivationAccumulator, Experts, Gates

TOKENS, EXPERTS, K = 1200, 8, 3


@pytest.fixture(scope="module")
def routing():
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=TOKENS)
    scores = np.exp(generator.normal(size=(2, TOKENS, EXPERTS)) + 2 * np.eye(4, EXPERTS)[labels])
    ids = np.argsort(-scores, axis=-1)[..., :K]
    return labels, scores, ids, np.take_along_axis(scores, ids, axis=-1)


def rows(layers):
    return [tuple(row.values()) for layer in layers for row in layer.to_rows()]


def measured(labels, **given):
    return measure_activations(
        labels=labels, documents=np.arange(TOKENS) // 10, permutations=5, num_experts=EXPERTS, **given
    )


def assert_same(found, expected, rtol=1e-9):
    for ours, theirs in zip(rows(found), rows(expected), strict=True):
        assert ours[:3] == theirs[:3]
        np.testing.assert_allclose(ours[3:], theirs[3:], rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("whole", [False, True], ids=["their weights", "scores of all"])
def test_they_equal_the_gates_that_they_come_from(routing, whole):
    labels, scores, ids, weights = routing
    gates = scores / scores.sum(axis=-1, keepdims=True)
    expected = measure_activations(gates, labels, documents=np.arange(TOKENS) // 10, permutations=5, top_k=K)
    found = measured(labels, experts=ids, weights=scores if whole else weights)
    assert_same(found, expected, rtol=1e-6)  # chance is drawn in single precision
    np.testing.assert_array_equal(found[0].module_tokens, expected[0].module_tokens)


def test_logits_as_weights_of_all_experts_are_named(routing):
    """The logits of chosen experts are often all positive."""
    labels, scores, ids, _ = routing
    logits = np.log(scores) + 3
    assert (np.take_along_axis(logits, ids, axis=-1) > 0).all()
    probabilities = scores / scores.sum(axis=-1, keepdims=True)
    masked = np.where((ids[..., np.newaxis] == np.arange(EXPERTS)).any(axis=-2), logits, -np.inf)
    for weights, are_logits in (
        (logits, True),
        (scores, False),
        (2.5 * probabilities, False),
        (masked, False),
    ):
        layers = measured(labels, experts=ids, weights=weights)
        assert all(
            any("logits are. Those of chosen" in text for text in one.warnings) == are_logits
            for one in layers
        )


def test_without_weights_all_weigh_the_same(routing):
    labels, _, ids, _ = routing
    (layer, _) = measured(labels, experts=ids)
    np.testing.assert_allclose(layer.mass.activation, layer.hard.activation)


def test_what_a_bias_chose_weighs_what_its_score_says():
    """Routing without an auxiliary loss chooses by score and bias, and weighs by sigmoid scores."""
    scores = np.array([[0.9, 0.6, 0.3]])
    chosen = np.argsort(-(scores + np.eye(3)[2]), axis=1)[:, :2]
    mass, _ = Experts(chosen, 3, scores).layers[0].read(slice(None))
    assert mass.modules is not None
    assert dict(zip(mass.modules[0].tolist(), mass.weights[0].tolist(), strict=True)) == pytest.approx(
        {2: 0.25, 0: 0.75}
    )


def test_shared_experts_are_left_out_wherever_they_stand(routing):
    labels, _, ids, weights = routing
    shared = np.zeros((2, TOKENS, 1), ids.dtype)
    given = np.concatenate([shared, ids + 1], axis=-1)
    found = measure_activations(
        labels=labels, experts=given, weights=np.concatenate([shared + 0.7, weights], axis=-1),
        num_experts=EXPERTS + 1, shared=[0], documents=np.arange(TOKENS) // 10, permutations=5,
    )  # fmt: skip
    assert_same(found, measured(labels, experts=ids, weights=weights))


def test_dropped_choices(routing):
    labels, _, ids, weights = routing
    dropped = ids[0].copy()
    dropped[::5] = -1  # whole tokens
    dropped[1::5, 0] = -1  # a choice of them
    (layer,) = measured(labels, experts=dropped, weights=weights[0])
    assert layer.dropped == len(dropped[::5])
    assert layer.label_counts.sum() == TOKENS - layer.dropped
    mass, hard = Experts(dropped[1:2], EXPERTS, weights[0, 1:2]).layers[0].read(slice(None))
    np.testing.assert_allclose([mass.weights.sum(), *hard.weights[0]], [1, 0, 0.5, 0.5])


def test_a_choice_of_weight_0_is_no_choice():
    """Capacities and masks produce such choices."""
    _, hard = Experts([[0, 1], [2, 1]], 3, [[0.7, 0.0], [0.0, 0.0]]).layers[0].read(slice(None))
    np.testing.assert_array_equal(hard.weights, [[1, 0], [0, 0]])
    _, hard = Gates([[0.0, 1.0, 0.0]], top_k=2).layers[0].read(slice(None))
    assert sorted(hard.weights[0]) == [0, 1]


def test_chunks_and_bfloat16(routing):
    labels, _, ids, weights = routing
    rough = (weights.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    seen = ActivationAccumulator()
    for start in range(0, TOKENS, 500):
        part = slice(start, start + 500)
        chunk = Experts(ids[:, part], EXPERTS, rough[:, part].view("V2"))
        seen.update(chunk, labels[part], np.arange(TOKENS)[part] // 10)
    expected = measured(labels, experts=ids, weights=(rough.astype(np.uint32) << 16).view(np.float32))
    assert_same(seen.result(permutations=5), expected, rtol=1e-6)  # sums in another order


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"num_experts": None}, "Give num_experts"),
        (
            {"num_experts": 2},
            "experts hold 2; expected numbers below num_experts=2, from 0, or -1 for a dropped",
        ),
        (
            {"experts": [[0, -2]]},
            "experts hold -2; .* looks like an overflow: 254 stored as int8 becomes -2. Save experts as",
        ),
        ({"experts": [0, 1]}, r"experts have shape \(2,\)"),
        ({"experts": [[0.5, 1.0]]}, "experts are of type float64; expected integers"),
        ({"weights": [[1.0]]}, r"weights have shape \(1, 1\)"),
        ({"weights": [[-1.0, 2.0]]}, "weights of token 0"),
        ({"weights": [[np.nan, 2.0]]}, "weights of token 0"),
        ({"weights": [["a", "b"]]}, "weights are of type <U1"),
        ({"weights": [[16128, 15975]]}, "weights are integers from 15975 to 16128, as bfloat16 that was"),
        ({"shared": [9]}, "shared holds 9"),
        ({"shared": [0, 2]}, "no expert was chosen"),
        ({"experts": [[0, 1], [2, 2]], "labels": [0, 1]}, "Token 1 of layer 0 was sent to expert 2 twice"),
        ({"experts": None}, "Give exactly one of activations, experts"),
        ({"experts": None, "activations": np.eye(3)}, "apply to experts only"),
        ({"from_logits": True}, "to which from_logits and top_k do not apply"),
        ({"top_k": 1}, "to which from_logits and top_k do not apply"),
    ],
)
def test_what_cannot_be_is_refused(changed, words):
    given = {"experts": [[0, 2]], "labels": [0], "num_experts": 3} | changed
    with pytest.raises(ValueError, match=words):
        measure_activations(**given)


@pytest.mark.parametrize("shared", [EXPERTS, 0], ids=["in no token", "in some tokens"])
def test_shared_experts_receive_every_token(routing, shared):
    labels, _, ids, _ = routing
    with pytest.raises(ValueError, match=f"shared holds {shared}, but only .* expected an expert that every"):
        measure_activations(labels=labels, experts=ids, num_experts=EXPERTS + 1, shared=[shared])


def test_an_expert_of_every_token_is_reported(routing):
    """It may be a shared expert, with which the load is uneven: 1/4 and the rest instead of even."""
    labels, _, ids, _ = routing
    given = np.concatenate([ids, np.full((2, TOKENS, 1), EXPERTS)], axis=-1)
    layers = measure_activations(labels=labels, experts=given, num_experts=EXPERTS + 1, permutations=0)
    assert all(any(f"Every token goes to expert {EXPERTS} in" in w for w in one.warnings) for one in layers)
    assert not any("Every token goes" in w for one in measured(labels, experts=ids) for w in one.warnings)


def test_dropped_choices_are_no_tokens_of_the_others():
    """A token that keeps one of its two experts counts once there, although its whole share is there."""
    experts = np.array([[0, -1], [1, 2], [1, 2], [-1, 0]])
    weights = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    (layer,) = measure_activations(experts=experts, num_experts=3, permutations=0)
    np.testing.assert_array_equal(layer.module_tokens, [2, 2, 2])
    (layer,) = measure_activations(experts=experts, weights=weights, num_experts=3, permutations=0)
    np.testing.assert_array_equal(layer.module_tokens, [2, 2, 1])
    gates = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    (layer,) = measure_activations(gates, top_k=2, permutations=0)
    np.testing.assert_array_equal(layer.module_tokens, [1, 1, 1])


def test_weights_of_all_experts_may_have_two_orders():
    """Weights [tokens, E] of k = E experts fit as weights in the order of `experts`, and as scores."""
    labels = np.arange(100) % 4
    scores = np.random.default_rng(0).dirichlet(np.ones(4), size=100)
    ids = np.argsort(-scores, axis=1)
    ranked, in_order = np.take_along_axis(scores, ids, axis=1), np.tile(np.arange(4), (100, 1))
    (expected,) = measure_activations(scores, labels, permutations=0)
    for experts, weights, right, ambiguous in (
        (ids, ranked, True, False),
        (in_order, scores, True, False),
        (ids, scores, False, True),
        (ids, None, False, False),
        (ids[:, :3], scores, False, False),  # without the smallest
    ):
        (layer,) = measure_activations(
            labels=labels, experts=experts, num_experts=4, weights=weights, permutations=0
        )
        assert np.allclose(layer.mass.activation, expected.mass.activation) == right
        assert any("have all 4 experts, so weights may be" in text for text in layer.warnings) == ambiguous


def test_an_expert_that_is_the_only_one_of_some_tokens_is_not_the_expert_of_all():
    """Half of the tokens give all of their weight to expert 0, the others nothing."""
    experts = np.tile([[0, -1], [1, 2], [0, -1], [2, 3]], (50, 1))
    for first, said in (([0, -1], False), ([0, 3], True)):
        experts[1::2, 0] = 0 if said else experts[1::2, 0]
        experts[::2] = first
        (layer,) = measure_activations(
            labels=np.arange(200) % 2, experts=experts, num_experts=4, permutations=2
        )
        assert any("Every token goes to expert 0" in text for text in layer.warnings) is said


@pytest.mark.parametrize(("first", "said"), [(0, False), (1, True)])
def test_numbers_that_begin_at_1_are_noticed(first, said):
    experts = np.random.default_rng(0).integers(first, 8 + first, size=(2, 400, 1))
    (layer, _) = measure_activations(experts=experts, num_experts=8 + first, permutations=0)
    assert any("If numbers begin at 1, subtract 1" in note for note in layer.warnings) is said
