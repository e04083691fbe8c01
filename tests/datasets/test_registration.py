"""`tfds.load("modarch_rules")` is known as soon as modtf and tensorflow_datasets are both imported."""

import pytest
import tensorflow_datasets as tfds
from processes import succeeds

import modtf  # noqa: F401
from modtf.datasets import registration

IMPORTS = [
    "import modtf; import tensorflow_datasets as tfds",
    "import tensorflow_datasets as tfds; import modtf",
    "from modtf.datasets import registration; registration.register(); import tensorflow_datasets as tfds",
]
CHECK = """
import sys, time
loaded = {"tensorflow", "keras", "modtf.datasets.modarch_rules"} & set(sys.modules)
assert not loaded, loaded
assert time.process_time() < 2, "slow to import"
from tensorflow_datasets.core import registered
assert registered._DATASET_PROVIDER_REGISTRY[0].has_dataset("modarch_rules")
assert len(registered._DATASET_PROVIDER_REGISTRY) == 3, "TFDS's two and ours"
"""


@pytest.mark.parametrize("imports", IMPORTS)
def test_registration_is_lazy(imports: str) -> None:
    succeeds("-W", "error", "-c", imports + CHECK)


def test_registering_again_changes_nothing() -> None:
    registration.register()
    registration.register()
    assert tfds.builder_cls("modarch_rules").name == "modarch_rules"
    assert "modarch_rules" in tfds.list_builders(with_community_datasets=False)
