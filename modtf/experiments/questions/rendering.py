"""Digits on a canvas, resized, coloured, lit and placed with two matrix products each."""

from functools import cache

import numpy as np

DIGIT, CANVAS, TILE_CORNERS = 28, 64, 36
SIZES = (14, 20, 28)  # small, medium, large
COLOURS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]], np.float64)
LIGHTS = np.array([0.4, 0.7, 1.0])
#: how one corner's coordinate compares with the other's: any way, or so that a relation is true or false
TRUTHS = (np.ones_like, np.less, np.greater_equal, np.greater, np.less_equal)


def resizing(size: int) -> np.ndarray:
    """Return the matrix [size, 28] of Pillow's bicubic filter, which is wider for smaller images."""
    scale = DIGIT / size
    distance = np.abs((np.arange(DIGIT) + 0.5 - (np.arange(size)[:, None] + 0.5) * scale) / scale)
    near = (1.5 * distance - 2.5) * distance**2 + 1
    far = ((-0.5 * distance + 2.5) * distance - 4) * distance + 2
    weights = np.where(distance < 1, near, np.where(distance < 2, far, 0.0))
    return weights / weights.sum(axis=1, keepdims=True)


def corners_of(question: str) -> tuple[int, ...]:
    """Count the corners along an axis for each size."""
    if question == "spatial":
        return tuple(CANVAS - size for size in SIZES)
    return (TILE_CORNERS if question == "multiple" else 1,) * len(SIZES)


@cache
def placing(question: str) -> np.ndarray:
    """Return matrices from a digit's 28 rows to those of the image: [sizes, corners, rows, 28]."""
    rows = DIGIT if corners_of(question)[0] == 1 else CANVAS
    matrices = np.zeros([len(SIZES), max(corners_of(question)), rows, DIGIT])
    for number, (size, corners) in enumerate(zip(SIZES, corners_of(question), strict=True)):
        centred = 0 if question == "spatial" else (DIGIT - size) // 2  # position within its tile
        for corner in range(corners):
            first = corner + centred
            matrices[number, corner, first : first + size] = resizing(size)
    return matrices


@cache
def corner_pairs(question: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of corners along one axis for every two sizes and each of `TRUTHS`, [9, 5, n, 2].

    Distant pairs come first, then close ones, then padding. Also return the number of both, [9, 5, 2].
    """
    lists, counts = [], []
    spans = list(zip(SIZES if question == "spatial" else (DIGIT,) * 3, corners_of(question), strict=True))
    for first, firsts in spans:
        for second, seconds in spans:
            a, b = np.indices([firsts, seconds]).reshape([2, -1])
            close = np.abs(a - b) < (first + second) / 2
            for truth in TRUTHS:
                kept = truth(a, b).astype(bool) if truth is not np.ones_like else np.ones_like(close)
                order = np.argsort(close[kept], kind="stable")
                lists.append(np.stack([a[kept], b[kept]], 1)[order])
                counts.append([np.sum(~close[kept]), np.sum(kept)])
    padded = np.zeros([len(lists), max(map(len, lists)), 2], np.int32)
    for number, listed in enumerate(lists):
        padded[number, : len(listed)] = listed
    shape = [len(SIZES) ** 2, len(TRUTHS)]
    return padded.reshape([*shape, -1, 2]), np.array(counts, np.int32).reshape([*shape, 2])


def draw_corners(ops, uniform, sizes, truth, across, pairs, counts):
    """Return corners (row, column) of two digits [G, 2, 2] that make a relation true, or false.

    They are uniform among the pairs whose digits are apart in at least one direction.

    Args:
        uniform: [G, 3], in [0, 1).
        sizes: the numbers of the sizes [G, 2].
        truth: one of `TRUTHS`, by number [G], along one axis: along columns if it goes `across`.
        pairs, counts: the results of `corner_pairs`.
    """
    both = sizes[:, 0] * len(SIZES) + sizes[:, 1]
    along, other = ops.stack([both, truth], 1), ops.stack([both, ops.zeros_like(truth)], 1)
    number = [ops.cast(ops.gather_nd(counts, where), uniform.dtype) for where in (along, other)]
    (apart, of_along), (apart_across, of_other) = ((n[:, 0], n[:, 1]) for n in number)
    far, near = apart * of_other, (of_along - apart) * apart_across
    is_far = uniform[:, 0] * (far + near) < far
    first = ops.where(is_far, uniform[:, 1] * apart, apart + uniform[:, 1] * (of_along - apart))
    second = uniform[:, 2] * ops.where(is_far, of_other, apart_across)
    last = ops.where(is_far, apart, of_along), ops.where(is_far, of_other, apart_across)
    corners = []
    for drawn, most, where in zip((first, second), last, (along, other), strict=True):
        place = ops.cast(ops.minimum(ops.floor(drawn), most - 1), "int32")
        corners.append(ops.gather_nd(pairs, ops.concatenate([where, place[:, None]], 1)))
    rows, columns = (ops.where(across[:, None], a, b) for a, b in (corners[::-1], corners))
    return ops.stack([rows, columns], 2)


def render(ops, digits, tuples, corners, placing):
    """Render one or two digits, floats 0 to 255 [G, objects, 28, 28], of tuples [G, objects, 4].

    Given corners [G, objects, 2], return images [G, objects, rows, columns, 3], and the place of each digit,
    without the last axis."""
    sizes = tuples[..., 3]
    rows, columns = (ops.gather_nd(placing, ops.stack([sizes, corners[..., n]], -1)) for n in (0, 1))
    grey = ops.matmul(ops.matmul(rows, digits / 255), columns, transpose_b=True)
    grey = grey / ops.maximum(ops.reduce_max(grey, axis=(-1, -2), keepdims=True), 1)
    lights = ops.gather(ops.cast(LIGHTS, grey.dtype), tuples[..., 2])
    paint = ops.gather(ops.cast(COLOURS, grey.dtype), tuples[..., 1]) * lights[..., None]
    box_rows, box_columns = (ops.round(ops.sum(matrix, axis=-1)) for matrix in (rows, columns))
    box = box_rows[..., :, None] * box_columns[..., None, :]
    return grey[..., None] * paint[..., None, None, :], box
