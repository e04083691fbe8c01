"""Arguments that are refused: a line says what was received and what was expected."""

from typing import Any

import numpy as np
import pytest

from modtf.metrics import (
    adaptation,
    adaptation_from_usage,
    check_activation_matrix,
    from_counts,
    measure_population,
    rule_distributions,
    uniform_activation,
)

EYE, USAGE, POPULATION = np.eye(2), np.full((5, 2), 0.5), np.full((3, 4, 4), 0.25)
MATRICES = [
    ([[1.2, -0.2], [0, 1]], r"-0\.2 at \[0, 1\]; probabilities cannot be negative"),
    ([[1, 0], [30, 12]], r"row \[1\] sums to 42 instead of 1"),
    ([[0, 1], [0, np.inf]], r"inf at \[1, 1\]; every entry must be finite"),
    (np.full((5, 2, 2), 0.5), r"shape \(5, 2, 2\).*measure_population"),
    (np.full((1, 1, 2, 2), 0.5), r"shape \(1, 1, 2, 2\); expected 2 dimension"),
    (np.zeros((0, 3)), r"is empty: its shape is \(0, 3\)"),
    ([[1, 0], [1]], "rectangular array of numbers"),
]
COUNTS = [
    (([[1, 0], [0, 0]], [1, 0]), r"counts is 0 for rule \[1\].*Evaluate more tokens"),
    (([[1, 0], [0, 1]], [1]), r"sums has shape \(2, 2\) and counts \(1,\)"),
    (([1, 0], 1), r"expected \[\.\.\., R, M\] and \[\.\.\., R\]"),
    (([[[1, 0]], [[1, 1]]], [[1], [1]]), r"row \[1, 0\] sums to 2"),
]
POPULATIONS: list[tuple[dict[str, Any], str]] = [
    ({"A": np.full((4, 4), 0.25)}, r"shape \(4, 4\); expected 3"),
    ({"A": np.full((2, 4, 4), 0.3)}, r"row \[0, 0\] sums to 1\.2"),
    (
        {"usage": np.full((2, 5, 4), 0.25)},
        r"usage has shape \(2, 5, 4\); expected one entry per member \(3\)",
    ),
    ({"rule_probs": 0.25}, r"rule_probs has shape \(\)"),
    ({"rule_probs": np.full(3, 1 / 3)}, "rule_probs has 3 entries.*4 rules"),
]
DRAWS = [
    (([[0.5, 0.5]], [[1, 0], [0, 1]]), "usage has 2 rows; expected one for each of 1 rule distr"),
    (([[0.5, 0.5]], [[10, 0]]), "usage .* sums to 10"),
    (([[0.5, 0.5]], [1, 0]), r"usage .* shape \(2,\)"),
]
OF_ANOTHER_MATRIX = [
    ({"usage": np.full((5, 3), 1 / 3)}, "usage has 3 modules, but the activation matrix has 2"),
    (
        {"rule_frequencies": np.full((5, 3), 1 / 3)},
        "rule_frequencies has 3 rules, but the activation matrix has 2",
    ),
    ({"rule_frequencies": np.full((4, 2), 0.5)}, "usage has 5 rows; expected one for each of 4"),
    ({"rule_frequencies": np.full((5, 2), 7)}, r"rule_frequencies \[draws, rules\].*sums to 14"),
]
SIZES = [
    (uniform_activation, (2, 0), "num_modules=0 is not valid; expected an integer of at least 1"),
    (rule_distributions, (2, 0), "num_draws=0 is not valid; expected an integer of at least 1"),
]
REFUSED = [
    *((check_activation_matrix, (matrix,), {}, words) for matrix, words in MATRICES),
    *((from_counts, arguments, {}, words) for arguments, words in COUNTS),
    *((measure_population, (), {"A": POPULATION, **named}, words) for named, words in POPULATIONS),
    *((adaptation_from_usage, arguments, {}, words) for arguments, words in DRAWS),
    *((adaptation, (EYE,), {"usage": USAGE, **named}, words) for named, words in OF_ANOTHER_MATRIX),
    *((function, arguments, {}, words) for function, arguments, words in SIZES),
]


@pytest.mark.parametrize(("function", "arguments", "named", "words"), REFUSED)
def test_a_wrong_argument_is_named(function, arguments, named, words):
    with pytest.raises(ValueError, match=words):
        function(*arguments, **named)
