"""Names of the labels and layers of a routing."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The names of labels and layers for readers. None means that their numbers are shown."""

    labels: Sequence[str] | None = None
    layers: Sequence[str] | None = None

    def label(self, number: int) -> str:
        return str(number) if self.labels is None else self.labels[number]

    def layer(self, number: int) -> str:
        return str(number) if self.layers is None else self.layers[number]
