"""The algebra of grids: products, chains and filters of settings, which become cells."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeVar

from modtf.studies.point import cell_of
from modtf.tasks.cell import Cell

Point = Mapping[str, Any]
T = TypeVar("T")


class Grid:
    """An ordered list of points, each a set of named settings; `grid` and `together` make them.

    `a * b` joins every point of a with every point of b, `a + b` is a followed by b, `where` filters, and
    `cells` turns the points into cells. `modtf.studies.point.cell_of` lists the possible settings of a point.

    Example:
        >>> kinds = grid(arch="mlp") + grid(arch="mha", search=["v1", "v2"])
        >>> small = kinds * grid(num_rules=[2, 4], width=32, variant=["monolithic", "modular"])
        >>> len(small), small.cells()[0].label
        (12, 'mlp_regression_r2_e32_monolithic')
    """

    def __init__(self, points: "list[Point] | tuple[Point, ...]"):
        self.points = tuple(points)

    def __mul__(self, other: "Grid") -> "Grid":
        """Join every point of this grid with every point of the other, which varies faster. Raise
        `ValueError` if both set the same name."""
        axes, other_axes = (set().union(*one.points) for one in (self, other))
        if twice := ", ".join(sorted(axes & other_axes)):
            raise ValueError(f"Both factors of a product of grids set {twice}. Set it in only one of them.")
        return Grid([{**a, **b} for a, b in product(self.points, other.points)])

    def __add__(self, other: "Grid") -> "Grid":
        """Return this grid's points, then the other's."""
        return Grid([*self.points, *other.points])

    def where(self, keep: Callable[[Point], bool]) -> "Grid":
        """Return the points for which `keep` is true: `where(lambda point: point["width"] >= 64)`."""
        return Grid([point for point in self.points if keep(point)])

    def cells(self) -> list[Cell]:
        """Return one cell per point. Raise `ValueError` for an unknown or invalid setting, with its point."""
        return [_named(point) for point in self.points]

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[Point]:
        return iter(self.points)

    def __repr__(self) -> str:
        return f"Grid of {len(self)} points"


def grid(**axes: Any) -> Grid:
    """Return all combinations; the last axis varies fastest.

    Args:
        **axes: a list or range is a choice; anything else (a tuple, too) is one value. Names with a dot are
            written as `**{"router.temperature": [1, 2]}`.

    Example:
        >>> [dict(point) for point in grid(arch="mlp", width=[32, 64])]
        [{'arch': 'mlp', 'width': 32}, {'arch': 'mlp', 'width': 64}]
    """
    return Grid([dict(zip(axes, values, strict=True)) for values in product(*map(_choices, axes.values()))])


def together(**axes: Any) -> Grid:
    """Return axes that vary together: the first values of all, the second values of all, and so on.

    Raises:
        ValueError: if they do not have equally many values.

    Example:
        >>> [dict(point) for point in together(num_rules=[2, 32], width=[32, 512])]
        [{'num_rules': 2, 'width': 32}, {'num_rules': 32, 'width': 512}]
    """
    lengths = {name: len(_choices(values)) for name, values in axes.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Axes that vary together must have as many values each, received {lengths}.")
    return Grid(
        [dict(zip(axes, row, strict=True)) for row in zip(*map(_choices, axes.values()), strict=True)]
    )


def shard_of(items: Sequence[T], shard: str) -> list[T]:
    """Return every n-th item from the i-th, for `shard` "i/n" with i from 0 (otherwise `ValueError`). The
    jobs of an array use it. Small and large cells are spread evenly, and the jobs are independent."""
    match = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not match or not int(match[1]) < int(match[2]):
        raise ValueError(
            f"--shard={shard} is not valid; expected i/n with i between 0 and n-1, for example 0/8, the "
            "first of 8."
        )
    return list(items[int(match[1]) :: int(match[2])])


def _named(point: Point) -> Cell:
    try:
        return cell_of(point)
    except (TypeError, ValueError) as error:
        shown = ", ".join(f"{name}={value!r}" for name, value in point.items())
        raise ValueError(f"{error} (in the cell {shown})") from error


def _choices(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | range) else [values]
