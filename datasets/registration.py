"""The registration of the builders with TensorFlow Datasets."""

from functools import cache
from importlib import import_module
from typing import Any

NAMES = ("modarch_rules", "modarch_vqa", "modarch_corruptions")


class Provider:
    """A provider of a builder's class for TFDS on first use. Before that, neither it nor TensorFlow is
    imported."""

    def has_dataset(self, name: str) -> bool:
        return name in NAMES

    def get_builder_cls(self, name: str) -> Any:
        return import_module(f"modtf.datasets.{name}.{name}_dataset_builder").Builder


@cache
def add_provider() -> None:
    import tensorflow_datasets as tfds

    # first in the list: the other providers import all of TFDS before they answer
    tfds.core.add_dataset_builder_provider(Provider(), index=0)


def register() -> None:
    """Register the TFDS builders, once."""
    import tensorflow_datasets  # noqa: F401  calls this function, where `import modtf` waits for it

    add_provider()
