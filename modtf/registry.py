"""A registry: the one place where a name on the command line becomes code."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Names and the objects they stand for, imported on first use.

    Listing the names costs nothing, so flags can be checked before TensorFlow is imported.

    Args:
        kind: what is registered, for the error message: "architecture", "measure", ...
        entries: name -> "package.module:attribute".

    Example:
        >>> families = Registry("task family", {"mlp": "modtf.datasets.families.mlp:MLPFamily"})
        >>> list(families)
        ['mlp']
    """

    def __init__(self, kind: str, entries: Mapping[str, str]):
        self.kind = kind
        self._entries = dict(entries)

    def register(self, name: str, location: str) -> None:
        """Adds one entry; raises `ValueError` if `name` is taken by something else."""
        if self._entries.setdefault(name, location) != location:
            raise ValueError(f"The {self.kind} {name!r} is registered already, as {self._entries[name]}.")

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            raise KeyError(f"Unknown {self.kind}: {name!r}. Known: {', '.join(self._entries)}.")
        module, attribute = self._entries[name].split(":")
        return getattr(import_module(module), attribute)

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # without importing it

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
