"""Names of the labels and layers of a routing."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any


@dataclass(frozen=True)
class Names:
    """The names of labels and layers for readers. None means that their numbers are shown."""

    labels: Sequence[str] | None = None
    layers: Sequence[str] | None = None

    def label(self, number: int) -> str:
        return str(number) if self.labels is None else self.labels[number]

    def layer(self, number: int) -> str:
        """Return the name of a layer, without the word "layer", which sentences put in front of it."""
        return re.sub(r"(?i)^layers?[ _.-]*(?=\d+$)", "", self.layer_name(number))

    def layer_name(self, number: int) -> str:
        """Return the whole name of a layer, for tables in files."""
        return str(number) if self.layers is None else self.layers[number]


def paired_layers(names: Names, others: Names) -> str:
    """Return a warning if layers that are paired by position have different names; otherwise ""."""
    pairs = list(zip(names.layers or (), others.layers or (), strict=False))
    different = [pair for pair in pairs if pair[0] != pair[1]]
    if not different:
        return ""
    one, other = different[0]
    return (
        f"Layers are paired by position, but {len(different)} of {len(pairs)} pairs have different names, "
        f"such as {one!r} and {other!r}. If these do not correspond, give the same layers of both."
    )


def check_one_kind(values: Any, what: str) -> None:
    """Raise `ValueError` if lists hold texts and numbers: NumPy would make one name of 0 and "0".

    NaN may stand for a missing name.
    """
    if isinstance(values, list | tuple):
        kinds = {isinstance(one, str | bytes): one for one in _entries(values)}
        if len(kinds) > 1:
            raise ValueError(
                f"{what} hold {kinds[True]!r} and {kinds[False]!r}; expected integers or texts, not both. "
                "Give all in the same form, for example by str(...)."
            )


def _entries(values: Any) -> Iterator[Any]:
    """Yield the texts and numbers in nested lists, except NaN."""
    for one in values:
        if isinstance(one, list | tuple):
            yield from _entries(one)
        elif isinstance(one, str | bytes) or (isinstance(one, Number) and one == one):
            yield one
