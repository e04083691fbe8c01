"""Prepares the finite splits of `modarch_rules` ahead of time. Several of these may run at once.

Example:
    python launch/prepare.py --configs='mlp_*,mha_v2_regression_r8_task0' --data_dir=data
"""

import contextlib
import fnmatch
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tensorflow_datasets as tfds
from absl import app, flags, logging

from modtf.datasets.modarch_rules.configs import ConfigsByName, RulesConfig, published_configs
from modtf.datasets.modarch_rules.info import split_bytes
from modtf.datasets.registration import NAME


def choose_configs(patterns: Sequence[str]) -> list[RulesConfig]:
    """The configurations that names and patterns stand for, each once.

    Raises:
        ValueError: where one of them stands for nothing.

    Example:
        >>> len(choose_configs(["mlp_*", "mlp_regression_r2_task0", "mlp_regression_r3_task0"]))
        51
    """
    published = ConfigsByName((config.name, config) for config in published_configs())
    chosen: dict[str, RulesConfig] = {}
    for pattern in patterns:
        names = fnmatch.filter(published, pattern)
        if not names and set(pattern) & set("*?["):
            raise ValueError(f"--configs={pattern} matches none of the {len(published)} published tasks.")
        chosen.update((name, published[name]) for name in names or [pattern])
    if not chosen:
        raise ValueError(
            "Give --configs=NAMES, the names of tasks or patterns, such as 'mlp_*,*_r8_*' or '*'."
        )
    return list(chosen.values())


def check_writable(data_dir: str | None) -> None:
    """Makes the folder; raises `ValueError` where one cannot write into it."""
    if data_dir is None or "://" in data_dir:
        return
    try:
        path = Path(data_dir).expanduser()
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise ValueError(f"--data_dir={data_dir} cannot be written: {error.strerror}.") from error


def prepare(config: RulesConfig, data_dir: str | None, file_format: str) -> str:
    """Prepares one configuration under a progress bar and says where."""
    builder = tfds.builder(NAME, config=config, data_dir=data_dir, file_format=file_format)
    with contextlib.redirect_stdout(io.StringIO()):  # TFDS speaks of downloads
        builder.download_and_prepare()
    return f"{config.name}  {builder.info.dataset_size}  {builder.data_dir}"


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Adds the flags of this command."""
    flags.DEFINE_list(
        "configs", [], "Names of tasks, or patterns over the 200 published: 'mlp_*'.", flag_values=values
    )
    flags.DEFINE_string(
        "data_dir",
        None,
        "Where to write; default TFDS_DATA_DIR or ~/tensorflow_datasets.",
        flag_values=values,
    )
    flags.DEFINE_enum(
        "file_format",
        "tfrecord",
        ["tfrecord", "array_record"],
        "array_record allows random access with tfds.data_source; tfrecord serves tfds.load.",
        flag_values=values,
    )
    flags.DEFINE_bool("only_print", False, "List what would be prepared, then stop.", flag_values=values)


def main(argv: Sequence[str]) -> None:
    """Prepares one configuration after the other; ends with status 1 and one line if it cannot."""
    given = flags.FLAGS
    try:
        if len(argv) > 1:
            raise ValueError(f"Unexpected {argv[1]!r}: give names as --configs=NAMES, separated by commas.")
        configs = choose_configs(given.configs)
        if given.only_print:
            for config in configs:
                size = sum(split_bytes(config.task, split) for split in config.splits.values())
                print(f"{config.name}  {size / 1e6:,.0f} MB")
            return
        check_writable(given.data_dir)
        logging.set_verbosity(logging.WARNING)
        for number, config in enumerate(configs, start=1):
            print(
                f"[{number}/{len(configs)}] {prepare(config, given.data_dir, given.file_format)}", flush=True
            )
    except (OSError, ValueError) as error:
        print(f"prepare.py: error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    define_flags()
    app.run(main)
