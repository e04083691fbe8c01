"""The TFDS builder `modarch_rules`. `train` is generated while it is read; the other splits are prepared."""

import copy
import itertools
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from absl import logging
from etils import epath
from filelock import FileLock, Timeout
from tensorflow_datasets.core import utils
from tensorflow_datasets.core.splits import AbstractSplit

from modtf.datasets.families import variations
from modtf.datasets.families.base import data_class
from modtf.datasets.modarch_rules.configs import (
    BATCH_SIZE,
    CONFIGS,
    TRAIN,
    PreparedSplit,
    RulesConfig,
    arranged,
    endless_train,
    find_config,
    is_train,
    split_bytes,
)
from modtf.datasets.streaming import stream
from modtf.tasks.task import Task

SUPERVISED_KEYS = ({"inputs": "inputs", "rule": "rule"}, "target")  # the elements of modtf.stream


def is_complete(directory: str | os.PathLike[str]) -> bool:
    """Return whether `directory` holds a dataset. TFDS writes its info last, then renames the directory."""
    return (epath.Path(directory) / "dataset_info.json").exists()


@contextmanager
def exclusive(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of `directory`, which need not exist; wait while another process holds it.

    The operating system frees the lock of a killed process. Object stores ("gs://...") have no locks:
    there, prepare in one process.
    """
    if "://" in os.fspath(directory):
        yield
        return
    path = Path(directory)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        logging.info("Waiting for another process that prepares %s.", path)
        lock.acquire()
    try:
        # left by a process that did not finish; otherwise it would still hold the lock
        for unfinished in path.parent.glob(f"incomplete.*_{path.name}"):
            shutil.rmtree(unfinished)
        if path.exists() and not is_complete(path):
            shutil.rmtree(path)
        yield
    finally:
        lock.release()


def task_features(task: Task, num_tokens: int | None = None) -> tfds.features.FeaturesDict:
    """Return the features of one example. Without `num_tokens`, a sequence has any length."""
    one, two = task.example_shapes(1), task.example_shapes(2)  # tokens have the axis that differs
    shapes = {
        name: tuple(n if n == m else num_tokens for n, m in zip(shape, two[name], strict=True))
        for name, shape in one.items()
    }
    names = task.family.rule_names(task) or [f"rule_{index}" for index in range(task.num_rules)]
    rule: Any = tfds.features.ClassLabel(names=list(names))
    return tfds.features.FeaturesDict(
        {
            "inputs": tfds.features.Tensor(shape=shapes["inputs"], dtype=np.dtype(task.input_dtype)),
            "rule": tfds.features.Sequence(rule, length=num_tokens) if task.is_sequence else rule,
            "target": tfds.features.Tensor(shape=shapes["target"], dtype=np.dtype(task.target_dtype)),
        }
    )


class RulesInfo(tfds.core.DatasetInfo):
    """`DatasetInfo` of data that are not in TFDS's bucket."""

    def initialize_from_bucket(self) -> None:
        """Do nothing: TFDS's bucket has none of these data, and the lookup leaves temporary folders."""


class OfLength(tfds.decode.PartialDecoding):
    """A decoder of the features of sequences of one length, whose shapes are therefore known."""

    def __init__(self, of_length: tfds.features.FeaturesDict):
        self._of_length = of_length
        super().__init__(of_length)

    def extract_features(self, features: Any) -> tfds.features.FeaturesDict:
        return self._of_length


class Builder(tfds.core.GeneratorBasedBuilder):
    """Rule-based tasks; see README.md.

    Args:
        task: a task, published or not. Use it or `config`.
        config: a name, such as "mha_v2_regression_r8_task0", or a `RulesConfig`.
        **kwargs: as for every TFDS builder: `data_dir`, `version`, `file_format`.

    Example:
        >>> builder = tfds.builder("modarch_rules", task=modtf.Task(num_rules=3))
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}
    DEFAULT_BUILDER_CONFIG_NAME = Task().name
    # builders of other tasks override these
    HOMEPAGE: ClassVar[str] = "https://arxiv.org/abs/2206.02713"
    supervised_keys: ClassVar[Any] = SUPERVISED_KEYS
    config_class: ClassVar[type[RulesConfig]] = RulesConfig
    builder_configs: ClassVar[Any] = CONFIGS
    find_config = staticmethod(find_config)

    @utils.classproperty
    @classmethod
    def BUILDER_CONFIGS(cls) -> list[RulesConfig]:  # noqa: N802  the name is TFDS's
        """Return the configurations of all families registered so far."""
        return list(cls.builder_configs.values())

    def __init__(self, *, task: Task | None = None, config: str | RulesConfig | None = None, **kwargs: Any):
        if task is not None:
            if config is not None:
                raise ValueError(f"task={task!r} and config={config!r} cannot both be given. Leave one out.")
            config = self.config_class(task=task)
        super().__init__(config=config, **kwargs)

    def _create_builder_config(self, builder_config: Any, version: Any) -> RulesConfig:
        if builder_config is None:
            builder_config = self.DEFAULT_BUILDER_CONFIG_NAME
        if isinstance(builder_config, str):
            return self.find_config(builder_config)
        if not isinstance(builder_config, self.config_class):
            raise ValueError(
                f"config={builder_config!r} is not known; expected a name or a "
                f"{self.config_class.__name__}. Give a modtf.Task as builder_kwargs={{'task': task}}."
            )
        return builder_config

    def _info(self) -> RulesInfo:
        task, texts = self.builder_config.task, self.get_metadata()
        drawn = {**data_class(task.family).parameters(task), **variations.parameters(task)}
        if variations.option(task, "form") == "network":
            for name in ("alpha", "beta"):  # no label follows from them
                drawn.pop(name, None)
        parameters = {name: values.tolist() for name, values in drawn.items()}
        return RulesInfo(
            builder=self,
            description=texts.description,
            citation=texts.citation,
            homepage=self.HOMEPAGE,
            features=self._features(),
            supervised_keys=self.supervised_keys,
            metadata=tfds.core.MetadataDict(task=task.to_dict(), **parameters),
            disable_shuffling=True,  # a split is the start of the stream
        )

    def _features(self, num_tokens: int | None = None) -> tfds.features.FeaturesDict:
        return task_features(self.builder_config.task, num_tokens)

    def _arranged(self, features: dict[str, tf.Tensor], target: tf.Tensor) -> dict[str, tf.Tensor]:
        return arranged(features, target)

    def is_prepared(self) -> bool:
        """Whether the finite splits are on disk."""
        return is_complete(self.data_dir)

    def download_and_prepare(self, **kwargs: Any) -> None:
        """Prepare the finite splits, in one process at a time. Arguments are those of every TFDS builder."""
        config = kwargs.get("download_config") or tfds.download.DownloadConfig()
        reuse = config.download_mode == tfds.GenerateMode.REUSE_DATASET_IF_EXISTS
        if not (reuse and self.is_prepared()):
            task, most = self.builder_config.task, config.max_examples_per_split
            needed = sum(split_bytes(task, split, most) for split in self.builder_config.splits.values())
            if not utils.has_sufficient_disk_space(needed, directory=self.data_dir_root):
                raise OSError(
                    f"{self.info.full_name} needs {utils.Size(needed)} of disk space in "
                    f"{self.data_dir_root}. Free some space, or choose another data_dir."
                )
            with exclusive(self.data_dir):
                super().download_and_prepare(**kwargs)
        self._read_info_of_others()

    def _read_info_of_others(self) -> None:
        """Read the sizes of the splits if another process prepared them after `__init__`."""
        if not self.info.splits and self.is_prepared():
            self.info.read_from_directory(self.data_dir)

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        return {name: self._generate_examples(split) for name, split in self.builder_config.splits.items()}

    def _generate_examples(self, split: PreparedSplit) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the examples of a split with their index, in the order of the stream."""
        options = split.condition.stream_options()
        batches = stream(self.builder_config.task, BATCH_SIZE, split.split, seed=0, **options)
        rows = itertools.chain.from_iterable(
            zip(features["inputs"], features["rule"], target, strict=True)
            for features, target in batches.as_numpy_iterator()
        )
        for index, row in enumerate(itertools.islice(rows, split.num_examples)):
            yield index, dict(zip(("inputs", "rule", "target"), row, strict=True))

    def as_dataset(self, split: Any = None, *, seed: int = 0, **kwargs: Any) -> Any:
        """Return `tf.data.Dataset`s, as every TFDS builder does.

        Args:
            split: `train`, which needs nothing on disk, or finite splits, slices and lists of them.
            seed: the seed of `train`; the finite splits are the same for every seed.
            **kwargs: `batch_size`, `as_supervised`, `shuffle_files`, `decoders`, `read_config`.
        """
        self._read_info_of_others()

        def one(part: Any) -> tf.data.Dataset:
            if not is_train(part):
                return self._finite(part, **kwargs)
            streamed = {name: value for name, value in kwargs.items() if name != "shuffle_files"}
            made = self.builder_config.task, self._arranged, self.supervised_keys
            return endless_train(*made, seed=seed, **streamed)

        if split is None:
            split = {name: name for name in (TRAIN, *self._finite_names())}
        return tf.nest.map_structure(one, split)

    def _finite_names(self) -> Iterable[str]:
        return self.builder_config.splits

    def _finite(self, split: Any, **kwargs: Any) -> tf.data.Dataset:
        return super().as_dataset(split=split, **kwargs)

    def _as_dataset(
        self, split: Any, decoders: Any = None, read_config: Any = None, **kwargs: Any
    ) -> tf.data.Dataset:
        read_config = copy.copy(read_config) or tfds.ReadConfig()
        read_config.enable_ordering_guard = False  # the caller asked for another order
        if decoders is None:
            parts = AbstractSplit.from_spec(split).to_absolute(self.info.splits)
            lengths = {self.builder_config.splits[part.splitname].num_tokens for part in parts}
            if len(lengths) == 1:
                decoders = OfLength(self._features(lengths.pop()))
        return super()._as_dataset(split, decoders=decoders, read_config=read_config, **kwargs)
