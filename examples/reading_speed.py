"""Measure the ways to read `modarch_rules`, in examples per second of CPU time.

Example:
    python examples/reading_speed.py --name=mlp_regression_r8_task0 --data_dir=data
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow_datasets as tfds

import modtf

BATCH = 256


def measure(make: Callable[[], Iterable[Any]], examples_each: int, seconds: float) -> tuple[float, float]:
    """Read for about `seconds` of CPU time; return examples per second of CPU time and of wall-clock time."""
    elements: Iterator[Any] = iter(make())
    next(elements)  # the first element includes the setup
    cpu, wall, count = time.process_time(), time.perf_counter(), 0
    while time.process_time() - cpu < seconds:
        try:
            next(elements)
            count += examples_each
        except StopIteration:
            elements = iter(make())
    return count / (time.process_time() - cpu), count / (time.perf_counter() - wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--name", default="mlp_regression_r8_task0")
    parser.add_argument("--data_dir", default=None)
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU seconds for each way")
    options = parser.parse_args()

    def prepared(file_format: str) -> Any:
        folder = f"{options.data_dir}/{file_format}" if options.data_dir else None
        builder = tfds.builder(f"modarch_rules/{options.name}", data_dir=folder, file_format=file_format)
        builder.download_and_prepare()
        return builder

    records, random_access = prepared("tfrecord"), prepared("array_record")
    task = records.builder_config.task
    no_cache = tfds.ReadConfig(try_autocache=False)
    ways: dict[str, tuple[Callable[[], Iterable[Any]], int]] = {
        "modtf.stream, batches": (lambda: modtf.stream(task, BATCH), BATCH),
        "train, batch_size=256": (lambda: records.as_dataset(split="train", batch_size=BATCH), BATCH),
        "train, single, then .batch(256)": (lambda: records.as_dataset(split="train").batch(BATCH), BATCH),
        "train, single": (lambda: records.as_dataset(split="train"), 1),
        "test from TFRecord, batch_size=256": (
            lambda: records.as_dataset(split="test", batch_size=BATCH, read_config=no_cache), BATCH,
        ),
        "test from TFRecord, single": (lambda: records.as_dataset(split="test", read_config=no_cache), 1),
        "test from ArrayRecord, tfds.data_source": (lambda: random_access.as_data_source(split="test"), 1),
    }  # fmt: skip
    print(f"{'examples per second':<42}{'of CPU time':>14}{'of stream':>12}{'on the clock':>14}")
    stream_speed = None
    for label, (make, examples_each) in ways.items():
        cpu, wall = measure(make, examples_each, options.seconds)
        stream_speed = stream_speed or cpu
        print(f"{label:<42}{cpu:>14,.0f}{cpu / stream_speed:>12.1%}{wall:>14,.0f}", flush=True)


if __name__ == "__main__":
    main()
