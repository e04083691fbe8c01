"""The endless `train`: `modtf.stream` in the structure of TFDS, and its distinction from finite splits."""

import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core.splits import ReadInstruction

from modtf.datasets.modarch_rules.configs import BATCH_SIZE
from modtf.datasets.streaming import stream
from modtf.tasks.task import Task

TRAIN = "train"


def is_train(split: Any) -> bool:
    """Return whether `split` is the endless `train`. Raise `ValueError` if it asks for a part of it."""
    if not re.search(r"(?<![\w-])train(?![\w-])", str(split)):
        return False
    if split in (TRAIN, ReadInstruction(TRAIN)):
        return True
    raise ValueError(
        f"split={str(split)!r} asks for a part of 'train', or joins it with another split. But 'train' is "
        "an endless stream, which cannot be sliced or extended. Take as many examples as you need with "
        "tfds.load(..., split='train').take(n), or slice the finite splits 'validation' and 'test'."
    )


def endless_train(
    task: Task,
    arrange: Callable[[Any, Any], dict[str, tf.Tensor]],
    supervised_keys: Any,
    batch_size: int | None = None,
    *,
    seed: int = 0,
    as_supervised: bool = False,
    decoders: Any = None,
    read_config: tfds.ReadConfig | None = None,
) -> tf.data.Dataset:
    """Return the training stream, with `arrange` applied to its elements, or its `supervised_keys`.

    Without a batch size it has single examples, those of the batches of 256 in their order. From
    `read_config`, `input_context` shards the stream, and `skip_prefetch` and `options` apply.
    """
    if batch_size == -1:
        raise ValueError(
            "batch_size=-1 asks for a whole split as one tensor, but 'train' is endless. Name a finite split "
            "(split='validation', 'test', ...), or take as much as you need: "
            "next(iter(tfds.load(..., split='train', batch_size=n)))."
        )
    read_config = read_config or tfds.ReadConfig()
    dataset = stream(task, BATCH_SIZE if batch_size is None else batch_size, TRAIN, seed)
    dataset = dataset.map(arrange)
    if as_supervised:
        dataset = dataset.map(lambda element: chosen(element, supervised_keys))
    dataset = read_as(dataset.unbatch() if batch_size is None else dataset, decoders, read_config)
    return dataset if read_config.skip_prefetch else dataset.prefetch(tf.data.AUTOTUNE)


def arranged(features: dict[str, tf.Tensor], target: tf.Tensor) -> dict[str, tf.Tensor]:
    """Return an element of `modtf.stream` in the structure of TFDS."""
    return {"inputs": features["inputs"], "rule": tf.cast(features["rule"], tf.int64), "target": target}


def chosen(element: dict[str, tf.Tensor], keys: Any) -> Any:
    """Return the parts of an element in the structure of their names."""
    return tf.nest.map_structure(lambda key: element[key], keys)


def read_as(dataset: tf.data.Dataset, decoders: Any, read_config: tfds.ReadConfig) -> tf.data.Dataset:
    """Apply the part and the options that a `tfds.ReadConfig` asks for."""
    for name, value in (("decoders", decoders), ("read_config.add_tfds_id", read_config.add_tfds_id)):
        if value:
            raise ValueError(
                f"{name} applies to examples that are read from files, but this split is generated on the "
                "fly. Leave it out, or choose a prepared split."
            )
    context = read_config.input_context
    if context is not None and context.num_input_pipelines > 1:
        dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset if read_config.options is None else dataset.with_options(read_config.options)
