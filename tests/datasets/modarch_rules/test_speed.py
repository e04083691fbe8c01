"""How fast `train` is read, as a ratio of CPU times within one run."""

import runpy
from pathlib import Path

import tensorflow_datasets as tfds

from modtf.datasets.streaming import stream
from modtf.task import Task

EXAMPLE = Path(__file__).parents[3] / "examples" / "reading_speed.py"


def test_batches_of_train_reach_a_third_of_the_stream(tmp_path: Path) -> None:
    measure = runpy.run_path(str(EXAMPLE))["measure"]
    builder = tfds.builder("modarch_rules", task=Task(), data_dir=tmp_path)
    bare, _ = measure(lambda: stream(Task(), 256), 256, seconds=0.7)
    batched, _ = measure(lambda: builder.as_dataset(split="train", batch_size=256), 256, seconds=0.7)
    assert batched > bare / 3, (batched, bare)  # measured: four fifths
