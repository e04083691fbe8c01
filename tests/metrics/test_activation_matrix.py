import numpy as np
import pytest

from modtf.metrics import TOLERANCE, check_activation_matrix, from_counts, module_use, uniform_activation


def test_returns_float64_rows_that_sum_to_one():
    A = np.array([[0.3, 0.7], [0.1, 0.9]], np.float32) * np.float32(1 + 0.9 * TOLERANCE)
    checked = check_activation_matrix(A)
    assert checked.dtype == np.float64
    assert checked.sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert checked == pytest.approx(np.array([[0.3, 0.7], [0.1, 0.9]]), abs=1e-7)


def test_leaves_its_argument_alone():
    A = np.array([[0.5, 0.5005], [1.0, 0.0]])
    before = A.copy()
    check_activation_matrix(A)[:] = 0
    np.testing.assert_array_equal(A, before)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.2, -0.2], [0, 1]], r"-0\.2 at \[0, 1\]; probabilities cannot be negative"),
        ([[0.5, 0.4], [0, 1]], r"row \[0\] sums to 0\.9 instead of 1"),
        ([[1, 0], [30, 12]], r"row \[1\] sums to 42 instead of 1"),
        ([[np.nan, 1], [0, 1]], r"nan at \[0, 0\]; every entry must be finite"),
        ([[0, 1], [0, np.inf]], r"inf at \[1, 1\]"),
        ([0.5, 0.5], r"shape \(2,\); expected 2 dimension"),
        (1.0, r"shape \(\); expected 2 dimension"),
        (np.full((5, 2, 2), 0.5), r"shape \(5, 2, 2\).*measure_population"),
        (np.full((1, 1, 2, 2), 0.5), r"shape \(1, 1, 2, 2\); expected 2 dimension"),
        (np.zeros((0, 3)), r"is empty: its shape is \(0, 3\)"),
        (np.zeros((3, 0)), r"is empty: its shape is \(3, 0\)"),
        ([[1, 0], [1]], "rectangular array of numbers"),
        ([["a", "b"]], "rectangular array of numbers"),
        (None, "expected 2 dimension"),
    ],
)
def test_rejects_what_is_no_activation_matrix(matrix, message):
    with pytest.raises(ValueError, match=message):
        check_activation_matrix(matrix)


def test_the_tolerance_covers_float32_sums_over_a_million_tokens():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(4000, 256, 8)).astype(np.float32)
    activation = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    sums = np.zeros((1, 8), np.float32)
    for batch in activation:
        sums += batch.sum(axis=0)
    rows = sums / np.float32(4000 * 256)
    assert abs(float(rows.sum()) - 1) < TOLERANCE / 10
    check_activation_matrix(rows)


def test_from_counts():
    A = from_counts([[3.0, 1.0], [0.0, 2.0]], [4, 2])
    np.testing.assert_array_equal(A, [[0.75, 0.25], [0, 1]])


def test_from_counts_of_a_population():
    counts = np.array([[4, 2], [1, 8], [3, 3]])
    A = np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 2))
    np.testing.assert_allclose(from_counts(A * counts[..., np.newaxis], counts), A)


@pytest.mark.parametrize(
    ("sums", "counts", "message"),
    [
        ([[1, 0], [0, 0]], [1, 0], r"counts is 0 for rule \[1\].*Evaluate more tokens"),
        ([[1, 0], [0, 1]], [1, -1], r"counts is -1 for rule \[1\]"),
        ([[1, 0], [0, 1]], [1, np.nan], r"counts is nan for rule \[1\]"),
        ([[1, 0], [0, 1]], [1], r"sums has shape \(2, 2\) and counts \(1,\)"),
        ([1, 0], 1, r"expected \[\.\.\., R, M\] and \[\.\.\., R\]"),
        ([[1, 0], [0, 1]], [2, 1], r"sums / counts .* row \[0\] sums to 0\.5"),
        ([[2, -1], [0, 1]], [1, 1], "cannot be negative"),
        ([[[1, 0]], [[1, 1]]], [[1], [1]], r"row \[1, 0\] sums to 2"),
        ([["a"]], [1], "sums must be a rectangular array of numbers"),
    ],
)
def test_from_counts_rejects(sums, counts, message):
    with pytest.raises(ValueError, match=message):
        from_counts(sums, counts)


def test_uniform_activation():
    np.testing.assert_array_equal(uniform_activation(2), np.full((2, 2), 0.5))
    np.testing.assert_array_equal(uniform_activation(3, 4), np.full((3, 4), 0.25))


@pytest.mark.parametrize("arguments", [(0,), (-1,), (2, 0)])
def test_uniform_activation_rejects(arguments):
    said = r"num_(rules|modules)=-?\d is not valid; expected an integer of at least 1"
    with pytest.raises(ValueError, match=said):
        uniform_activation(*arguments)


def test_module_use():
    assert module_use(np.array([[1, 0], [0.5, 0.5]])) == pytest.approx([0.75, 0.25])
    assert module_use(np.array([[1, 0], [0.5, 0.5]]), [0.2, 0.8]) == pytest.approx([0.6, 0.4])
