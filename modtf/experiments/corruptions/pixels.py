"""The corruptions of images, equal to SciPy's filters in every pixel, both in NumPy and in tf.data.

Images are floating-point numbers [G, H, W, C] in 0..255. `ops` is `numpy` itself or
`modtf.datasets.host_ops`, which have the same names for the operations used here. In float64 the order of
operations is SciPy's, so that even the last bit agrees; pixels are truncated at the end.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

LARGEST = 255.0
TRUNCATED = 4.0  # where a Gaussian ends, in standard deviations


def contrast(ops: Any, x: Any, s: float) -> Any:
    """Return (x - mean) s + mean, with the mean of every channel of an image."""
    mean = ops.sum(x, axis=(1, 2), keepdims=True) / float(x.shape[1] * x.shape[2])
    return clipped(ops, (x - mean) * s + mean)


def gaussian_blur(ops: Any, x: Any, sigma: float) -> Any:
    """Do what `scipy.ndimage.gaussian_filter(mode="nearest")` does for every channel, rows first."""
    radius = int(TRUNCATED * sigma + 0.5)
    weights = np.exp(-0.5 / (sigma * sigma) * np.arange(-radius, radius + 1) ** 2)
    weights = weights / weights.sum()
    for axis in (1, 2):
        size = x.shape[axis]
        padded = _take(ops, x, np.clip(np.arange(-radius, size + radius), 0, size - 1), axis)
        parts = [_part(padded, axis, n, size) for n in range(2 * radius + 1)]
        x = parts[radius] * float(weights[radius])
        for n in range(radius):
            x = x + (parts[n] + parts[2 * radius - n]) * float(weights[n])
    return clipped(ops, x)


def impulse_noise(ops: Any, x: Any, uniform: Any, share: float) -> Any:
    """Set values to 0 or 255, half each, wherever `uniform`, of the same shape, is below `share`."""
    lost = ops.where(uniform < share / 2, ops.zeros_like(x), LARGEST + ops.zeros_like(x))
    return ops.where(uniform < share, lost, x)


def swirl(ops: Any, x: Any, strength: float) -> Any:
    """Do what `scipy.ndimage.map_coordinates(order=1, mode="mirror")` does at `swirl_sources`."""
    corners, weights = _bilinear(x.shape[1], x.shape[2], strength)
    flat = ops.reshape(x, [-1, x.shape[1] * x.shape[2], x.shape[3]])
    parts = []
    for place, (by_row, by_column) in zip(corners, weights, strict=True):
        part = _take(ops, flat, place, 1) * _as(ops, by_row[:, None], x)
        parts.append(_last_product(ops, part, _as(ops, by_column[:, None], x)))
    total = parts[0] + parts[1] + parts[2] + parts[3]
    return clipped(ops, ops.reshape(total, [-1, *x.shape[1:]]))


def swirl_sources(height: int, width: int, strength: float) -> np.ndarray:
    """Return the source (y, x) of every pixel of a swirled image: [2, H, W]."""
    y, x = np.mgrid[:height, :width] - np.array([height / 2, width / 2])[:, None, None]
    rho = np.hypot(y, x)
    angle = np.arctan2(y, x) + strength * np.exp(-rho / (width / np.sqrt(2) * np.log(2) / 5))
    return np.stack([height / 2 + rho * np.sin(angle), width / 2 + rho * np.cos(angle)])


@cache
def _bilinear(height: int, width: int, strength: float) -> tuple[list[np.ndarray], list[tuple[Any, Any]]]:
    """Return four neighbours of every source, as pixel numbers [H W], and their weights by row and column."""
    first, share = [], []
    for source, size in zip(swirl_sources(height, width, strength), (height, width), strict=True):
        period = 2 * size - 2
        source = np.abs(source) % period
        source = np.where(source >= size, period - source, source).ravel()
        first.append(np.floor(source).astype(np.int64))
        share.append(source - np.floor(source))
    corners, weights = [], []
    for down in (0, 1):
        for right in (0, 1):
            row, column = (
                np.where(at >= size, 2 * size - 2 - at, at)
                for at, size in zip((first[0] + down, first[1] + right), (height, width), strict=True)
            )
            corners.append(row * width + column)
            weights.append(tuple(s if one else 1 - s for s, one in zip(share, (down, right), strict=True)))
    return corners, weights


def apply(ops: Any, rule: int, x: Any, uniform: Any, severity: Mapping[str, float]) -> Any:
    """Return images under the corruption of this number in `orders.RULES`. If the corruption needs them,
    `uniform` returns random numbers of the shape of x."""
    made: Sequence[Any] = (
        lambda: x,
        lambda: contrast(ops, x, severity["contrast"]),
        lambda: gaussian_blur(ops, x, severity["sigma"]),
        lambda: impulse_noise(ops, x, uniform(), severity["impulses"]),
        lambda: LARGEST - x,
        lambda: ops.transpose(x, [0, 2, 1, 3])[:, ::-1],  # a quarter turn anticlockwise
        lambda: swirl(ops, x, severity["swirl"]),
    )
    return made[rule]()


def clipped(ops: Any, x: Any) -> Any:
    return ops.minimum(ops.maximum(x, _as(ops, np.float64(0), x)), _as(ops, np.float64(LARGEST), x))


def _last_product(ops: Any, x: Any, factor: Any) -> Any:
    """Multiply by a constant, after another constant. TensorFlow's graph optimiser would otherwise turn
    (x a) b into x (a b), which rounds differently: 255 would become 254.99..., which is truncated to 254."""
    return x * factor if ops is np else ops.math.multiply_no_nan(x, factor)


def _as(ops: Any, values: Any, like: Any) -> Any:
    """Return NumPy numbers as tensors of another tensor's type."""
    kind = like.dtype
    return np.asarray(values, kind) if ops is np else ops.cast(values, kind)


def _take(ops: Any, x: Any, places: np.ndarray, axis: int) -> Any:
    return ops.take(x, places, axis=axis) if ops is np else ops.gather(x, places, axis=axis)


def _part(x: Any, axis: int, start: int, size: int) -> Any:
    return x[:, start : start + size] if axis == 1 else x[:, :, start : start + size]
