"""`tfds.load("modarch_rules")` is known without importing TensorFlow or the builder."""

import subprocess
import sys

import tensorflow_datasets as tfds

from modtf.datasets import registration

LAZY = """
import sys, time
start = time.process_time()
from modtf.datasets import registration
registration.register()
assert time.process_time() - start < 1.5, time.process_time() - start
loaded = [name for name in ("tensorflow", "keras", "modtf.datasets.modarch_rules") if name in sys.modules]
assert not loaded, loaded
import tensorflow_datasets as tfds
assert tfds.builder_cls("modarch_rules").name == "modarch_rules"
"""


def test_registration_is_lazy() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", LAZY], check=True, capture_output=True, text=True)


def test_registering_twice_changes_nothing() -> None:
    registration.register()
    registration.register()
    assert tfds.builder_cls("modarch_rules") is tfds.builder_cls("modarch_rules")
    assert "modarch_rules" in tfds.list_builders(with_community_datasets=False)
