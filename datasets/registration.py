"""Makes `tfds.load("modarch_rules")` known to TensorFlow Datasets."""

from functools import cache
from typing import Any

NAME = "modarch_rules"


class Provider:
    """Gives TFDS the builder class on first use: until then neither it nor TensorFlow is imported."""

    def has_dataset(self, name: str) -> bool:
        return name == NAME

    def get_builder_cls(self, name: str) -> Any:
        from modtf.datasets.modarch_rules.modarch_rules_dataset_builder import Builder

        return Builder


@cache
def add_provider() -> None:
    import tensorflow_datasets as tfds

    # first in line: the others import all of TFDS before they answer
    tfds.core.add_dataset_builder_provider(Provider(), index=0)


def register() -> None:
    """Registers the builder, once."""
    import tensorflow_datasets  # noqa: F401  calls this function, where `import modtf` waits for it

    add_provider()
