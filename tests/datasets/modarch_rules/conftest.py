"""Small datasets, prepared once for all tests of the builder."""

from pathlib import Path

import pytest
import tensorflow_datasets as tfds

import modtf  # noqa: F401  registers the builder

SMALL = "_validation300_test40"  # 300: more than one batch of the stream, and not a multiple of it


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> None:
    tfds.disable_progress_bar()


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small datasets of the session are prepared."""
    return tmp_path_factory.mktemp("tfds")


@pytest.fixture(scope="session")
def mlp(data_dir: Path) -> tfds.core.DatasetBuilder:
    """`mlp` regression with 4 rules, prepared."""
    builder = tfds.builder(f"modarch_rules/mlp_regression_r4_task1{SMALL}", data_dir=data_dir)
    builder.download_and_prepare()
    return builder
