"""The layout of FLAME-MoE's traces: a folder with one parquet file a layer, rows of `indices` and `scores`.

Row i is the same token in all layers and in the files of the folder `samples`. That folder is next to the
folder `actives` and has the column `token_id`. Source: the card of the data set CMU-FLAME/FLAME-MoE-Traces.
"""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import stacked, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import PACKED, Source
from modtf.routing.formats.table import parquet_column, parquet_file

ENDING, INDICES, SCORES, TOKEN = ".parquet", "indices", "scores", "token_id"
LAYER = re.compile(r"layer_?(\d+)")


@FORMATS.register("flame")
class Flame(Format):
    """A folder such as actives/iter_5473, or files of the same columns and rows, one a layer."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        files = source.files(ENDING)
        return bool(files) and {INDICES, SCORES} <= set(_names(files[0]))

    @classmethod
    def read(cls, source: Source) -> Readers:
        files = source.files(ENDING)
        for file in files[0].parent.iterdir():
            if file not in files and LAYER.match(file.name) and source.path != files[0]:
                raise ValueError(f"{file.name} is named as a layer; expected .parquet files for all layers")
        stems = [file.name.removesuffix(PACKED).removesuffix(ENDING) for file in files]
        names = [match[1] if (match := LAYER.fullmatch(stem)) else stem for stem in stems]
        numbers = [match[1] for stem in stems if (match := LAYER.match(stem))]
        if len(set(map(int, numbers))) < len(numbers):
            raise ValueError(
                "several files have the number of one layer; expected one file a layer, with all tokens"
            )
        for file in files:
            if lacking := {INDICES, SCORES} - set(_names(file)):
                raise ValueError(f"{file.name} lacks {', '.join(sorted(lacking))}")
        arrays: Readers = {
            "experts": partial(_stacked, files, INDICES),
            "weights": partial(_stacked, files, SCORES),
            "layer_names": lambda: np.array(names),
        }
        if samples := _samples(files[0].parent):
            num_rows = parquet_file(files[0]).metadata.num_rows
            num_samples = sum(parquet_file(file).metadata.num_rows for file in samples)
            if num_samples == num_rows:
                arrays["tokens"] = lambda: np.concatenate([_column(file, TOKEN) for file in samples])
            else:
                warn(
                    f"{samples[0].parent} has {num_samples} tokens, but there are {num_rows} rows. "
                    "The tokens are not read."
                )
        return arrays


def _names(file: Path) -> list[str]:
    return list(parquet_file(file).schema_arrow.names)


def _samples(folder: Path) -> list[Path]:
    """Return the files of tokens, which the data set keeps in ../../samples."""
    samples = folder.absolute().parent.parent / "samples"
    files = Source(samples).files(ENDING) if samples.is_dir() else []
    return [file for file in files if TOKEN in _names(file)]


def _stacked(files: Sequence[Path], name: str) -> NDArray[Any]:
    return stacked([_column(file, name) for file in files], f"the files have {name}", ["[tokens, k]"])


def _column(file: Path, name: str) -> NDArray[Any]:
    return parquet_column(parquet_file(file), name)
