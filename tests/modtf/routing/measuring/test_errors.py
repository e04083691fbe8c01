"""Errors say what was received and how to mend it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from modtf import metrics
from modtf.routing.measuring import ActivationAccumulator, measure_activations

GATES, LABELS = np.full((6, 4), 0.25), np.arange(6) % 3

MATRIX = {"labels": None, "activations": None, "activation_matrix": GATES}
CHOSEN = LABELS[:, np.newaxis]
COUNTS = {"labels": None, "activations": None}
SENT = {"activations": None, "experts": CHOSEN, "num_experts": 4}


def spoilt(value, at=(4, 2)):
    gates = GATES.copy()
    gates[at] = value
    return gates


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": LABELS.astype(float)}, "labels are of type float64; expected integers.*np.unique"),
        ({"labels": list("abcab")}, r"labels have shape \(5,\); expected \(6,\)"),
        ({"labels": [0, 1, 2]}, r"labels have shape \(3,\); expected \(6,\)"),
        ({"labels": LABELS[:, np.newaxis]}, r"labels have shape \(6, 1\); expected \(6,\)"),
        ({"labels": [0, 1, -100, 0, 1, 2]}, r"labels hold -100 at token 2.*keep = labels >= 0"),
        ({"labels": [0, 1, 50_000, 0, 1, 2]}, r"labels hold 50000; expected class numbers below 16384"),
        ({"documents": [0.5] * 6}, "documents are of type float64"),
        (
            {"labels": np.array([0, 2**63] * 3, np.uint64)},
            r"labels hold 9223372036854775808; expected integers be",
        ),
        (
            {"documents": np.full(6, 2**64 - 1, np.uint64)},
            r"documents hold .* expected integers below 2\*\*63",
        ),
        ({"documents": [0, 1]}, r"documents have shape \(2,\)"),
        ({"activations": np.full(6, 0.25)}, r"shape \(6,\); expected \[tokens, modules\].*reshape"),
        ({"activations": np.full((1, 2, 6, 4), 0.25)}, r"shape \(1, 2, 6, 4\)"),
        ({"activations": np.zeros((6, 0))}, r"shape \(6, 0\)"),
        ({"activations": [["a", "b"]] * 6}, "rectangular array of numbers"),
        ({"activations": [["1E100", "2"]] * 6}, "numbers: the values are text"),
        ({"activations": GATES.T}, r"labels have shape \(6,\); expected \(4,\).*transpose"),
        ({"activations": spoilt(np.nan)}, r"token 4 are \[0.25 0.25  nan 0.25\].*must be finite"),
        ({"activations": spoilt(0.35)}, r"token 4 .*with sum 1.1: gates must be.*from_logits=True"),
        ({"activations": spoilt([-0.25, 0.75], at=(4, [1, 2]))}, "must be probabilities"),
        ({"activations": spoilt(np.nan), "from_logits": True}, "token 4 .*logits must be finite"),
        ({"activations": spoilt(np.inf), "from_logits": True}, "token 4 .*logits must be finite"),
        ({"activations": spoilt(-np.inf, at=3), "from_logits": True}, "token 3 .*logits must be finite"),
        ({"top_k": 5}, "top_k=5 is not valid; expected at most 4"),
        ({"top_k": 0}, "top_k=0 is not valid; expected an integer of at least 1"),
        ({"num_groups": 1}, "num_groups=1 is not valid"),
        ({"permutations": -1}, "permutations=-1 is not valid"),
        ({"permutations": 10**9}, "permutations=1000000000 is not valid; expected an integer of at"),
        ({"labels": np.ma.masked_array(LABELS)}, "labels are masked. Leave out"),
        (SENT | {"experts": np.ma.masked_array(CHOSEN)}, "experts are masked. Replace the masked experts"),
        (SENT | {"weights": np.ma.masked_array(CHOSEN)}, "weights are masked. Replace the masked experts"),
        ({"confidence": 95}, "confidence=95 is not valid; expected a number between 0.5"),
        ({"groups": ["speed"]}, "groups='speed' is not known"),
        ({"groups": ["specialisation"], "labels": None}, "groups=specialisation compares labels"),
        ({"label_probs": "equal"}, "label_probs='equal' is not valid; expected 'uniform', None"),
        ({"label_probs": [0.5, 0.5, 0]}, "label_probs holds 0 for a label that occurs"),
        ({"label_probs": [0.5, 0.5]}, "label_probs has 2 entries; expected one for each of 3 labels"),
        (COUNTS | {"counts": np.full((4, 1, 4), 0.25)}, "counts hold fractions; expected integers"),
        (
            COUNTS | {"counts": [[[6, 2, 2, 2]]], "top_k": 3},
            "more choices of an expert than tokens, if each token makes 3 choices",
        ),
        (MATRIX | {"top_k": 2}, "do not apply to an activation_matrix, whose rows are"),
        (MATRIX | {"activation_matrix": 2 * GATES}, r"row \[0\] sums to 2"),
        ({"activation_matrix": GATES}, "Give exactly one of activations, experts"),
        ({"labels": [], "activations": np.zeros((0, 4))}, "There are no tokens; expected at least one"),
        ({"labels": None, "activations": iter([])}, "There are no tokens"),
        (
            {"labels": [0, 1], "documents": [1, 1, 1, 2, 2, 2]},
            "number documents from 0 in the order of labels",
        ),
        (
            {"labels": [0] * 5, "documents": [0] * 6},
            "One is missing for each document.*Leave out the last token",
        ),
        ({"labels": [0] * 5}, r"expected \(6,\), one for each token. Give one for every token"),
        ({"labels": None, "activations": iter([GATES])}, r"Chunk 0 is of type ndarray and shape \(6, 4\)"),
        ({"labels": None, "activations": iter([(GATES,)])}, "Chunk 0 is a tuple of 1; expected"),
        ({"labels": None, "activations": iter([]), "documents": LABELS}, "documents as part of the chunks"),
        ({"labels": None, "activations": 3.0}, r"shape \(\)"),
    ],
)
def test_rejects(arguments, message):
    with pytest.raises(ValueError, match=message):
        measure_activations(**({"activations": GATES, "labels": LABELS} | arguments))


def test_chunks_of_different_models():
    accumulator = ActivationAccumulator()
    accumulator.update(GATES, LABELS)
    with pytest.raises(ValueError, match=r"has 1 layer.s. and 3 modules; expected 1 layer.s. and 4"):
        accumulator.update(np.full((6, 3), 1 / 3), LABELS)
    with pytest.raises(ValueError, match=r"has 2 layer.s. and 4 modules"):
        accumulator.update(np.stack([GATES, GATES]), LABELS)
    with pytest.raises(ValueError, match="Some chunks have documents and some have none"):
        accumulator.update(GATES, LABELS, LABELS)
    with pytest.raises(ValueError, match="Some chunks have labels and some have none"):
        accumulator.update(GATES)


def test_too_much_memory():
    with pytest.raises(ValueError, match=r"10001 labels x 1 layer.s. and 512 modules.* GiB\. Map labels"):
        measure_activations(np.full((1, 512), 1 / 512), [10_000])


NOT_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "masked": np.ma.masked_array,
    "complex": lambda array: array + 0j,
    "text": lambda array: array.astype(str),
    "text in objects": lambda array: array.astype(str).astype(object),
    "dates": lambda array: array.astype("M8[s]"),
}


@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_values_that_numpy_would_convert_are_refused(kind):
    A, labels, make = np.eye(3), np.arange(12) % 3, NOT_NUMBERS[kind]
    calls: list[Callable[[], Any]] = [
        lambda: metrics.measure_all(make(A)),
        lambda: metrics.measure_all(A, usage=make(A)),
        lambda: metrics.measure_all(A, rule_probs=make(A[0])),
        lambda: metrics.measure_population(make(A[None])),
        lambda: metrics.alignment(make(A)),
        lambda: metrics.from_counts(make(A), np.ones(3)),
        lambda: measure_activations(make(A)),
        lambda: measure_activations(make(A[labels]), labels, permutations=2),
    ]
    for call in calls:
        with pytest.raises(
            ValueError, match=f"must be a rectangular array of numbers: the values are {kind[:4]}"
        ):
            call()


@pytest.mark.parametrize("kind", ["float64", "bfloat16"])
def test_tensors_of_pytorch_are_read(kind):
    """Gates of a model require gradients, and are often in half precision."""
    torch = pytest.importorskip("torch")
    gates = np.eye(4)[LABELS] / 2 + 0.125
    tensor = torch.tensor(gates, dtype=getattr(torch, kind)).requires_grad_()
    for activations in (tensor, [tensor, tensor]):
        layers = measure_activations(activations, LABELS, permutations=0)
        expected = measure_activations(gates, LABELS, permutations=0)
        assert layers[-1].mass.values["alignment"].value == expected[0].mass.values["alignment"].value


@pytest.mark.parametrize("labels", [[0, "0", 1, "1", 0, 1], [True, "True", 1.0, "1.0", "a", "b"]])
def test_lists_of_texts_and_numbers_are_refused(labels):
    with pytest.raises(ValueError, match=r"labels hold .* and .*; expected integers or texts, not both"):
        measure_activations(GATES, labels)
