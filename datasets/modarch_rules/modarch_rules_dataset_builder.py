"""The TFDS builder `modarch_rules`: `train` is generated while it is read, the other splits are prepared."""

import dataclasses
from typing import Any, ClassVar

import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core import utils
from tensorflow_datasets.core.dataset_builder import FileReaderBuilder
from tensorflow_datasets.core.splits import AbstractSplit

from modtf.datasets.modarch_rules import info
from modtf.datasets.modarch_rules.configs import CONFIGS, RulesConfig, find_config
from modtf.datasets.modarch_rules.endless import endless_train
from modtf.datasets.modarch_rules.locking import exclusive, is_complete
from modtf.datasets.modarch_rules.splits import TRAIN, is_train
from modtf.datasets.modarch_rules.writing import write_splits
from modtf.task import Task


class Builder(FileReaderBuilder):
    """Rule-based tasks; see README.md.

    Args:
        task: a task, published or not. Instead of `config`.
        config: a name, such as "mha_v2_regression_r8_task0", or a `RulesConfig`.
        **kwargs: as for every TFDS builder: `data_dir`, `version`, `file_format`.

    Example:
        >>> builder = tfds.builder("modarch_rules", task=modtf.Task(num_rules=3))
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES: ClassVar[dict[str, str]] = {"1.0.0": "Initial release."}
    DEFAULT_BUILDER_CONFIG_NAME = Task().name
    builder_configs = CONFIGS

    @utils.classproperty
    @classmethod
    def BUILDER_CONFIGS(cls) -> list[RulesConfig]:  # noqa: N802  the name is TFDS's
        """Those of all families registered by now."""
        return list(CONFIGS.values())

    def __init__(self, *, task: Task | None = None, config: str | RulesConfig | None = None, **kwargs: Any):
        if task is not None:
            if config is not None:
                raise ValueError(f"Give task or config, not both: received {task!r} and config={config!r}.")
            config = RulesConfig(task=task)
        super().__init__(config=config, **kwargs)

    def _create_builder_config(self, builder_config: Any, version: Any) -> RulesConfig:
        if builder_config is None:
            builder_config = self.DEFAULT_BUILDER_CONFIG_NAME
        if isinstance(builder_config, str):
            return find_config(builder_config)
        if not isinstance(builder_config, RulesConfig):
            raise ValueError(
                f"config={builder_config!r} is not known; expected a name or a RulesConfig. "
                "A modtf.Task is given as builder_kwargs={'task': task}."
            )
        return builder_config

    def _info(self) -> info.RulesInfo:
        task = self.builder_config.task
        texts = self.get_metadata()
        return info.RulesInfo(
            builder=self,
            description=texts.description,
            citation=texts.citation,
            homepage=info.HOMEPAGE,
            features=info.task_features(task),
            supervised_keys=info.SUPERVISED_KEYS,
            metadata=info.task_metadata(task),
        )

    def is_prepared(self) -> bool:
        """Whether the finite splits are on disk."""
        return is_complete(self.data_dir)

    def download_and_prepare(self, **kwargs: Any) -> None:
        """Prepares the finite splits, in one process at a time. Arguments as for every TFDS builder."""
        config = kwargs.get("download_config") or tfds.download.DownloadConfig()
        reuse = config.download_mode == tfds.GenerateMode.REUSE_DATASET_IF_EXISTS
        if not (reuse and self.is_prepared()):
            with exclusive(self.data_dir):
                super().download_and_prepare(**kwargs)
        self._read_info_of_others()

    def _read_info_of_others(self) -> None:
        """Learns the sizes of the splits where another process prepared them after `__init__`."""
        if not self.info.splits and self.is_prepared():
            self.info.read_from_directory(self.data_dir)

    def _download_and_prepare(self, dl_manager: Any, download_config: Any = None) -> None:
        task, config = self.builder_config.task, download_config or tfds.download.DownloadConfig()
        splits = list(self.builder_config.splits.values())
        if (limit := config.max_examples_per_split) is not None:
            splits = [
                dataclasses.replace(s, num_examples=min(limit, s.num_examples)) for s in splits if limit
            ]
        needed = sum(info.split_bytes(task, split) for split in splits)
        if not utils.has_sufficient_disk_space(needed, directory=self.data_dir):
            raise OSError(f"{self.info.full_name} needs {utils.Size(needed)} in {self.data_dir_root}.")
        writer = tfds.core.ExampleWriter(file_format=self.info.file_format)
        written = write_splits(task, splits, self._get_filename_template, writer, config.get_shard_config())
        self.info.set_splits(written)

    def as_dataset(self, split: Any = None, *, seed: int = 0, **kwargs: Any) -> Any:
        """`tf.data.Dataset`s, as for every TFDS builder.

        Args:
            split: `train`, which needs nothing on disk, or finite splits, slices and lists of them.
            seed: of `train`; the finite splits are the same for every seed.
            **kwargs: `batch_size`, `as_supervised`, `shuffle_files`, `decoders`, `read_config`.
        """
        self._read_info_of_others()
        if split is None:
            split = {name: name for name in (TRAIN, *self.builder_config.splits)}
        from_files = super().as_dataset

        def one(part: Any) -> tf.data.Dataset:
            if not is_train(part):
                return from_files(split=part, **kwargs)
            streamed = {name: value for name, value in kwargs.items() if name != "shuffle_files"}
            return endless_train(self.builder_config.task, seed=seed, **streamed)

        return tf.nest.map_structure(one, split)

    def _as_dataset(self, split: Any, decoders: Any = None, **kwargs: Any) -> tf.data.Dataset:
        if decoders is None:
            parts = AbstractSplit.from_spec(split).to_absolute(self.info.splits)
            lengths = {self.builder_config.splits[part.splitname].num_tokens for part in parts}
            if len(lengths) == 1:
                decoders = info.OfLength(self.builder_config.task, lengths.pop())
        return super()._as_dataset(split, decoders=decoders, **kwargs)

    def as_data_source(self, split: Any = None, **kwargs: Any) -> Any:
        """Random access to the finite splits, as for every TFDS builder (`file_format="array_record"`)."""
        self._read_info_of_others()
        if any(is_train(part) for part in tf.nest.flatten(split) if part is not None):
            raise ValueError(
                "'train' is an endless stream, so no example of it can be looked up by its index. "
                "Read it with tfds.load(..., split='train'), or name a finite split."
            )
        return super().as_data_source(split, **kwargs)
