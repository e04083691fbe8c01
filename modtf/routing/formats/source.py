"""Sources of routing: a file, a folder, or an object in memory."""

import gzip
import json
import math
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from modtf.base.checks import check_integer
from modtf.base.extras import install
from modtf.base.files import UNREADABLE, check_gzip, regular_file

JSON_LINES = ".jsonl"
PACKED = ".gz"
MAPPED = (".npz", ".npy", ".safetensors", ".gguf", ".pt", ".pth")  # cannot be read while they are compressed


class Source:
    """A file, a folder, or an object.

    Args:
        thing: a path, or an object that holds routing.
        top_k, num_layers: the number of experts per token and of layers, for formats that do not store them.
        columns: a mapping usual name -> name in the file, for tables.

    Raises:
        ValueError: if a path does not exist, or is neither a file nor a folder.
    """

    def __init__(
        self,
        thing: Any,
        top_k: int | None = None,
        num_layers: int | None = None,
        columns: Mapping[str, str] | None = None,
    ):
        self.path = Path(thing) if isinstance(thing, str | Path) else None
        self.thing = thing
        self.top_k = top_k
        is_mapping = isinstance(columns, Mapping | None)
        names = [*(columns or {}), *(columns or {}).values()] if is_mapping else [None]
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"columns={columns!r} is not valid; expected a mapping usual name -> column.")
        self.num_layers = None if num_layers is None else check_integer("num_layers", num_layers, 1)
        self.columns = dict(columns or {})
        self._loaded: dict[Path, Any] = {}
        if self.path is not None:
            _check_path(self.path)

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else f"The {type(self.thing).__name__}"

    def files(self, ending: str) -> Sequence[Path]:
        """Return the file, or the folder's files, with this ending, ordered by the numbers in their names.

        Tables and JSON may be compressed (.gz); other files may not. A pipe or a device is a `ValueError`.
        Most formats are mapped into memory or read by line, so any size is allowed.
        """
        if self.path is None:
            return []
        inside = [*self.path.iterdir()] if self.path.is_dir() else [self.path]
        files = [
            regular_file(path, math.inf)
            for path in inside
            if path.name.removesuffix(PACKED).endswith(ending) and not path.is_dir()
        ]
        if packed := [path.name for path in files if ending in MAPPED and path.suffix == PACKED]:
            raise ValueError(f"{packed[0]} is compressed; expected a {ending} file. Unpack it")
        return sorted(files, key=by_number)

    def one_file(self, ending: str) -> Path:
        """Return the one file with this ending; `ValueError` if a folder holds several."""
        files = self.files(ending)
        if len(files) > 1:
            raise ValueError(
                f"it holds {len(files)} {ending} files; give the path of one, such as {files[0].name}"
            )
        if not files:
            raise ValueError(f"it holds no {ending} file")
        return files[0]

    def contents(self) -> Iterator[tuple[str, Any]]:
        """Yield the location and content of each object: in memory, or in .jsonl, .json and .pt files.
        A list is read as its elements."""
        if self.path is None:
            yield from _each(str(self), self.thing)
        for file in self.files(JSON_LINES):
            yield from json_lines(file)
        for ending, load in LOADERS.items():
            for file in self.files(ending):
                if file not in self._loaded:
                    with explained(f"{file} cannot be read"):
                        self._loaded[file] = load(regular_file(file))
                yield from _each(file.name, self._loaded[file])

    @cached_property
    def first(self) -> Any:
        """The first object, or None."""
        return next((content for _, content in self.contents()), None)

    def first_has(self, *fields: str) -> bool:
        """Return whether the first object is a mapping with these fields."""
        return isinstance(self.first, Mapping) and all(field in self.first for field in fields)


def _each(place: str, content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, list):
        yield from ((f"element {number} of {place}", one) for number, one in enumerate(content))
    else:
        yield place, content


def opened(file: Path, encoding: str = "utf-8") -> IO[str]:
    """Open a text file, which may be compressed."""
    if file.suffix == PACKED:
        check_gzip(file)
        return gzip.open(file, "rt", encoding=encoding, newline="")
    return file.open(encoding=encoding, newline="")


def json_lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the location of each object, and the object; `ValueError` if a line is not a JSON object."""
    with opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            place = f"line {number} of {file.name}"
            if not line.strip():
                continue
            with explained(f"{place} is not valid JSON"):
                record = json.loads(line)
            if not isinstance(record, dict):
                raise ValueError(f"{place} is a {type(record).__name__}; expected a JSON object")
            yield place, record


def check_fields(place: str, record: Mapping[str, Any], *fields: str) -> None:
    """Raise `ValueError` unless the record has these fields, and none of them is a truth value: Python would
    count `true` as 1."""
    if missing := [name for name in fields if name not in record]:
        raise ValueError(f"{place} lacks {', '.join(missing)}")
    if wrong := [name for name in fields if isinstance(record[name], bool)]:
        raise ValueError(f"{place} has {wrong[0]}={record[wrong[0]]}; expected a number")


def _load_torch(file: Path) -> Any:
    import torch

    return torch.load(file, map_location="cpu", weights_only=True)


def _load_json(file: Path) -> Any:
    with opened(file) as text:
        return json.load(text)


LOADERS = {".json": _load_json, ".pt": _load_torch, ".pth": _load_torch}


def by_number(path: Path | str) -> list[tuple[int, str]]:
    """Return a sort key of a file, or of a name, that puts rank2 before rank10."""
    parts = re.split(r"(\d+)", path if isinstance(path, str) else path.name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _check_path(path: Path) -> None:
    try:
        exists = path.exists()
    except (OSError, ValueError) as error:  # the path is too long, or has a null character
        raise ValueError(f"{str(path)[:99]!r} is not a path: {error}") from error
    if not exists:
        several = "," in path.name and all(Path(part).exists() for part in str(path).split(","))
        hint = " Repeat --activations for each file." if several else " Expected a file or a folder."
        raise ValueError(f"{path} does not exist.{hint}")
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a pipe or a device; expected a file or a folder. Copy it into a file.")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn read errors into one line. If a library is missing, the line says how to install it."""
    try:
        yield
    except ImportError as error:
        command = "pip install torch" if error.name == "torch" else install("parquet")
        raise ValueError(f"{what}: {error}. Install it: {command}") from error
    except RecursionError as error:
        raise ValueError(f"{what}: it is nested too deeply") from error
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{what}: it holds Python objects, which are not unpickled because that can run code. Save a "
            "dict of tensors by torch.save(dict(...), file)."
        ) from error
    except (*UNREADABLE, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"{what}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0]
    return f"it lacks {text}" if isinstance(error, KeyError) else text
