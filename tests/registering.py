"""Registrations of a test."""

from collections.abc import Iterator
from contextlib import contextmanager

from modtf.base.registry import Registry


@contextmanager
def forgotten(*registries: Registry) -> Iterator[None]:
    """Remove registrations made inside the context; parts of the tree imported meanwhile stay."""
    before = [set(registry.outside) for registry in registries]
    try:
        yield
    finally:
        for registry, names in zip(registries, before, strict=True):
            for name in set(registry.outside) - names:
                del registry._objects[name], registry._origins[name]
