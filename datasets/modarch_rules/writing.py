"""Finite splits on disk, in the format TFDS reads."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import tensorflow_datasets as tfds
from tensorflow_datasets.core import utils
from tensorflow_datasets.core.utils import shard_utils

from modtf.datasets.modarch_rules.info import record_layout, split_bytes
from modtf.datasets.modarch_rules.splits import PreparedSplit
from modtf.datasets.streaming import stream
from modtf.task import Task

BATCH_SIZE = 256  # of the stream the examples come from; another size gives other examples


def serialised_examples(
    task: Task, split: PreparedSplit, progress: Callable[[int], object]
) -> Iterator[tuple[int, bytes]]:
    """The examples of a split with their index; `progress` hears of every batch."""
    layout = record_layout(task, split.num_tokens)
    batches = stream(task, BATCH_SIZE, split.split, seed=0, **split.condition.stream_options())
    done = 0
    for features, target in batches.take(math.ceil(split.num_examples / BATCH_SIZE)).as_numpy_iterator():
        count = min(BATCH_SIZE, split.num_examples - done)
        records = layout.records({**features, "target": target})
        yield from zip(range(done, done + count), records, strict=False)  # the last batch may hold more
        done += count
        progress(count)


def write_split(
    task: Task,
    split: PreparedSplit,
    template: tfds.core.ShardedFileTemplate,
    writer: tfds.core.ExampleWriter,
    shard_config: shard_utils.ShardConfig,
    progress: Callable[[int], object],
) -> tfds.core.SplitInfo:
    """Writes the files of one split, in the order of the stream, and returns what TFDS records of them."""
    num_bytes = split_bytes(task, split)
    num_shards = shard_config.get_number_shards(num_bytes, split.num_examples)
    ends = shard_utils.get_shard_boundaries(split.num_examples, num_shards)
    lengths = [end - start for start, end in itertools.pairwise([0, *ends])]
    examples = serialised_examples(task, split, progress)
    for index, length in enumerate(lengths):
        path = template.sharded_filepath(shard_index=index, num_shards=num_shards)
        writer.write(path, itertools.islice(examples, length))
    return tfds.core.SplitInfo(
        name=split.name, shard_lengths=lengths, num_bytes=num_bytes, filename_template=template
    )


def write_splits(
    task: Task,
    splits: Sequence[PreparedSplit],
    template_of: Callable[[str], tfds.core.ShardedFileTemplate],
    writer: tfds.core.ExampleWriter,
    shard_config: shard_utils.ShardConfig,
) -> tfds.core.SplitDict:
    """Writes the files of all splits, under a progress bar (`tfds.disable_progress_bar()` hides it)."""
    total = sum(split.num_examples for split in splits)
    with utils.tqdm(total=total, unit=" examples", desc=task.name, leave=False) as bar:
        return tfds.core.SplitDict(
            [
                write_split(task, split, template_of(split.name), writer, shard_config, bar.update)
                for split in splits
            ]
        )
