"""TFDS's own tests of a builder."""

import pytest
import tensorflow_datasets as tfds

from modtf.datasets.modarch_rules.modarch_rules_dataset_builder import Builder

pytest.importorskip("dill", reason="tensorflow_datasets.testing imports it")


class ModarchRulesTest(tfds.testing.DatasetBuilderTestCase):
    DATASET_CLASS = Builder
    BUILDER_CONFIG_NAMES_TO_TEST = ["mlp_classification_r32_task4_validation7_test9"]  # noqa: RUF012
    SPLITS = {"validation": 7, "test": 9, "test_scale2": 9}  # noqa: RUF012
    EXAMPLE_DIR = "."  # nothing is downloaded
