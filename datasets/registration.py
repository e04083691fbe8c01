"""The registration of the builders with TensorFlow Datasets."""

from functools import cache
from importlib import import_module
from typing import Any

from modtf.base.registry import parts_of_experiments

#: name -> the module of its builder
BUILDERS = {
    "modarch_rules": "modtf.datasets.modarch_rules.modarch_rules_dataset_builder",
    **parts_of_experiments("builder"),
}


class Provider:
    """A provider of a builder's class for TFDS on first use. Before that, neither it nor TensorFlow is
    imported."""

    def has_dataset(self, name: str) -> bool:
        return name in BUILDERS

    def get_builder_cls(self, name: str) -> Any:
        return import_module(BUILDERS[name]).Builder


@cache
def add_provider() -> None:
    import tensorflow_datasets as tfds

    # first in the list: the other providers import all of TFDS before they answer
    tfds.core.add_dataset_builder_provider(Provider(), index=0)


def register() -> None:
    """Register the TFDS builders, once."""
    import tensorflow_datasets  # noqa: F401  calls this function, where `import modtf` waits for it

    add_provider()
