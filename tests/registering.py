"""What a test registers."""

from collections.abc import Iterator
from contextlib import contextmanager

from modtf.registry import Registry


@contextmanager
def forgotten(*registries: Registry) -> Iterator[None]:
    """What is registered inside is gone after it; what of the tree was imported meanwhile stays."""
    before = [set(registry.outside) for registry in registries]
    try:
        yield
    finally:
        for registry, names in zip(registries, before, strict=True):
            for name in set(registry.outside) - names:
                del registry._objects[name], registry._origins[name]
