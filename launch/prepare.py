"""Prepares the finite splits of `modarch_rules` ahead of time. Several of these commands may run at once.

Example:
    python launch/prepare.py --configs='mlp_*,mha_v2_regression_r8_task0' --data_dir=data
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

import contextlib
import fnmatch
import io
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import tensorflow_datasets as tfds
from absl import flags, logging

from modtf.base.files import check_writable
from modtf.datasets.modarch_rules.configs import CONFIGS, RulesConfig, find_config
from modtf.launch.cli import Definer, run_command


def choose_configs(patterns: Sequence[str]) -> list[RulesConfig]:
    """Return the configurations of names and patterns, each once; raise `ValueError` if there are none."""
    chosen: dict[str, RulesConfig] = {}
    for pattern in patterns:
        names = fnmatch.filter(CONFIGS, pattern)
        if not names and set(pattern) & set("*?["):
            raise ValueError(f"--configs={pattern} matches none of the {len(CONFIGS)} published tasks.")
        chosen.update((name, find_config(name)) for name in names or [pattern])
    if not chosen:
        raise ValueError(
            "Give --configs=NAMES: names of tasks or patterns, for example 'mlp_*,*_r8_*' or '*'."
        )
    return list(chosen.values())


def prepare(config: RulesConfig, data_dir: str | None, file_format: str) -> str:
    """Prepare one configuration under a progress bar; return its name, size and folder."""
    builder = tfds.builder("modarch_rules", config=config, data_dir=data_dir, file_format=file_format)
    with contextlib.redirect_stdout(io.StringIO()):  # hides the messages of TFDS about downloads
        builder.download_and_prepare()
    return f"{config.name}  {builder.info.dataset_size}  {builder.data_dir}"


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    define.list("configs", [], "Names of tasks, or patterns that match published tasks, such as 'mlp_*'.")
    words = "The folder to write to. The default is TFDS_DATA_DIR or ~/tensorflow_datasets."
    define.string("data_dir", None, words)
    words = "The format of the files. array_record allows random access with tfds.data_source; tfrecord "
    define.enum("file_format", "tfrecord", ["tfrecord", "array_record"], f"{words}suits tfds.load.")


def main(values: flags.FlagValues) -> None:
    """Prepare the configurations one after the other."""
    configs = choose_configs(values.configs)
    data_dir = values.data_dir or tfds.core.constants.DATA_DIR
    if "://" not in str(data_dir):
        check_writable(Path(os.path.expanduser(data_dir)), "--data_dir")  # an unknown ~user stays
    logging.set_verbosity(logging.WARNING)
    for number, config in enumerate(configs, start=1):
        print(f"[{number}/{len(configs)}] {prepare(config, values.data_dir, values.file_format)}", flush=True)


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
