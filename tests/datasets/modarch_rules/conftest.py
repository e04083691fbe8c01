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


def prepared(name: str, data_dir: Path) -> tfds.core.DatasetBuilder:
    builder = tfds.builder(f"modarch_rules/{name}", data_dir=data_dir)
    builder.download_and_prepare()
    return builder


@pytest.fixture(scope="session")
def mlp(data_dir: Path) -> tfds.core.DatasetBuilder:
    """`mlp` regression with 4 rules."""
    return prepared(f"mlp_regression_r4_task1{SMALL}", data_dir)


@pytest.fixture(scope="session")
def mha(data_dir: Path) -> tfds.core.DatasetBuilder:
    """`mha` classification with 3 rules."""
    return prepared("mha_v2_classification_r3_task1_validation5_test4", data_dir)


@pytest.fixture(scope="session")
def rnn(data_dir: Path) -> tfds.core.DatasetBuilder:
    """`rnn` regression of the state with 2 rules."""
    return prepared("rnn_state_regression_r2_task0_validation3_test2", data_dir)
