"""The TFDS builder `modarch_corruptions`: images, with splits that are generated while they are read."""

import dataclasses
import re
from collections.abc import Iterable
from itertools import permutations
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath
from tensorflow_datasets.core.splits import AbstractSplit

from modtf.datasets.image_builder import ImageBuilder, image_feature
from modtf.datasets.modarch_rules.configs import BATCH_SIZE, PreparedSplit, RulesConfig, read_as
from modtf.datasets.streaming import stream
from modtf.experiments.corruptions.conditions import CORRUPTIONS, DATASETS, LONGEST, name_of, padded
from modtf.tasks.families import FAMILIES, Condition
from modtf.tasks.task import Task

FAMILY = "corruptions"
RULE = "The corruptions in their order, as one number; `order_of` in the module `orders` translates it."
#: data set -> the names of its classes
CLASSES = {
    "digits": "0123456789",
    "emnist": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt",  # letters that look alike share a class
    "cifar10": ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
}
NAME = re.compile(
    r"(?P<dataset>[a-z\d]+)(_contrast(?P<contrast>[\d.]+)|_(?P<severity>lowest))?(_task(?P<data_seed>\d{1,10}))?"
)


@dataclasses.dataclass(eq=False)
class CorruptionsConfig(RulesConfig):
    """A task of the family `corruptions`. Its splits have all available images.

    Example:
        >>> CorruptionsConfig(task=Task("corruptions", dataset="emnist", severity="lowest")).name
        'emnist_lowest'
    """

    task: Task = dataclasses.field(default_factory=lambda: Task(FAMILY))

    def __post_init__(self) -> None:
        task, of = self.task, DATASETS[self.task.dataset]
        self.num_validation, self.num_test = of.classes * of.sizes[1], of.num_test
        parts = [task.dataset, *([f"contrast{task.contrast}"] if task.contrast != 0.3 else [])]
        parts += ["lowest"] if task.severity == "lowest" else []
        self.name = "_".join([*parts, *([f"task{task.data_seed}"] if task.data_seed else [])])
        self.description = f"Images of {of.title} under corruptions and compositions of them."

    @property
    def splits(self) -> dict[str, PreparedSplit]:
        """The splits `validation`, `test`, and the images of `test` under the corruptions in each of 1,957
        orders."""
        validation, test = list(super().splits.values())[:2]
        splits = {split.name: split for split in (validation, test)}
        for order in (order for size in range(LONGEST + 1) for order in permutations(CORRUPTIONS, size)):
            name, options = name_of(order), {"order": np.array(padded(order), np.int32)}
            condition = Condition(name, name, options=options)
            splits[name] = dataclasses.replace(test, name=name, condition=condition)
        return splits


def find_config(name: str) -> CorruptionsConfig:
    """Return the configuration of a name. Raise `ValueError` if there is none."""
    match = NAME.fullmatch(name)
    values: dict[str, Any] = {k: v for k, v in (match.groupdict() if match else {}).items() if v}
    values |= {
        key: kind(values[key]) for key, kind in (("contrast", float), ("data_seed", int)) if key in values
    }
    try:
        if match:
            return CorruptionsConfig(task=Task(FAMILY, **values))
        reason = "no such name"
    except ValueError as error:
        reason = str(error)
    raise ValueError(
        f"{name!r} is not a configuration of modarch_corruptions ({reason}). Expected "
        f"{', '.join(DATASETS)}, optionally followed by _contrast0.2 or _lowest, and by _taskSEED."
    )


class Builder(ImageBuilder):
    """Images under corruptions; see README.md. A config is a name, such as "digits"."""

    supervised_keys: ClassVar[Any] = ("inputs", "target")
    DEFAULT_BUILDER_CONFIG_NAME = "digits"
    HOMEPAGE: ClassVar[str] = "https://arxiv.org/abs/2306.09005"
    pkg_dir_path = epath.Path(__file__).parent  # TFDS would use the parent's
    config_class = CorruptionsConfig
    builder_configs: ClassVar[Any] = {name: find_config(name) for name in DATASETS}
    find_config = staticmethod(find_config)

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self._splits = self.builder_config.splits
        self._infos = {
            name: tfds.core.SplitInfo(name=name, shard_lengths=[split.num_examples], num_bytes=0)
            for name, split in self._splits.items()
        }
        shown = ("validation", "test", *FAMILIES[FAMILY].condition_names[1:])
        self.info.set_splits(tfds.core.splits.SplitDict([self._infos[name] for name in shown]))

    def _features(self, num_tokens: int | None = None) -> tfds.features.FeaturesDict:
        task = self.builder_config.task
        return tfds.features.FeaturesDict(
            {
                "inputs": image_feature(task.family.token_shape(task), task.input_dtype),
                "rule": tfds.features.Scalar(np.int64, doc=RULE),  # 117,649 orders: too many names
                "target": tfds.features.ClassLabel(names=self._class_names()),
            }
        )

    def _class_names(self) -> list[str]:
        return list(CLASSES[self.builder_config.task.dataset])

    def _arranged(self, features: dict[str, tf.Tensor], target: tf.Tensor) -> dict[str, tf.Tensor]:
        element = super()._arranged(features, target)
        return {name: tensor[:, 0] for name, tensor in element.items()}  # drops the axis of tokens

    def is_prepared(self) -> bool:
        """Return True: there is nothing to prepare."""
        return True

    def download_and_prepare(self, **kwargs: Any) -> None:
        """Do nothing: all splits are generated while they are read."""

    def _finite_names(self) -> Iterable[str]:
        return self.info.splits

    def _finite(self, split: Any, **kwargs: Any) -> Any:
        arguments = {
            "batch_size": None,
            "as_supervised": False,
            "decoders": None,
            "read_config": None,
            **kwargs,
        }
        arguments |= {"shuffle_files": False, "read_config": arguments["read_config"] or tfds.ReadConfig()}
        return self._build_single_dataset(split=split, **arguments)

    def _as_dataset(
        self, split: Any, decoders: Any = None, read_config: Any = None, **_: Any
    ) -> tf.data.Dataset:
        try:
            parts = AbstractSplit.from_spec(split).to_absolute(self._infos)
        except ValueError as error:
            raise ValueError(
                f"split={split!r} is not valid ({str(error)[:60]} ...). Expected train, validation, test, "
                "id (no corruption), or corruptions in their order, such as co_gb_im. All but train may be "
                "sliced."
            ) from None
        whole = self._made(parts[0])
        for part in parts[1:]:
            whole = whole.concatenate(self._made(part))
        return read_as(whole, decoders, read_config)

    def _made(self, part: Any) -> tf.data.Dataset:
        """Yield the examples of a split, or of a slice of it, one by one."""
        of = self._splits[part.splitname]
        first, end = part.from_ or 0, of.num_examples if part.to is None else part.to
        step, before = divmod(first, BATCH_SIZE)
        options = of.condition.stream_options()
        batches = stream(self.builder_config.task, BATCH_SIZE, of.split, seed=0, start_step=step, **options)
        return batches.map(self._arranged).unbatch().skip(before).take(end - first)
