"""Where routing is read from: a file, a folder, or an object in memory."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modtf.results.schema import UNREADABLE


class Source:
    """A file, a folder, or an object.

    Args:
        thing: a path, or an object that holds routing.

    Raises:
        ValueError: if a path does not exist, or is neither a file nor a folder.
    """

    def __init__(self, thing: Any):
        self.path = Path(thing) if isinstance(thing, str | Path) else None
        self.thing = thing
        if self.path is not None:
            _check_path(self.path)

    def __str__(self) -> str:
        return str(self.path) if self.path is not None else f"The {type(self.thing).__name__}"

    def files(self, ending: str) -> Sequence[Path]:
        """Return the file, or the files of the folder, that end in this way, ordered by their numbers."""
        if self.path is None:
            return []
        inside = self.path.glob(f"*{ending}") if self.path.is_dir() else [self.path]
        return sorted((p for p in inside if p.suffix == ending and p.is_file()), key=by_number)

    def one_file(self, ending: str) -> Path:
        """Return the one file that ends in this way; `ValueError` if a folder holds several."""
        files = self.files(ending)
        if len(files) > 1:
            raise ValueError(f"it holds {len(files)} {ending} files; name one, such as {files[0].name}")
        return files[0]


def by_number(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that puts rank2 before rank10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def _check_path(path: Path) -> None:
    try:
        found = path.exists()
    except (OSError, ValueError) as error:  # too long, or with a null character
        raise ValueError(f"{str(path)[:99]!r} is not a path: {error}") from error
    if not found:
        raise ValueError(f"{path} does not exist.")
    if not path.is_file() and not path.is_dir():
        raise ValueError(f"{path} is a pipe or a device; expected a file or a folder. Copy it into a file.")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors of reading into one line, which names the library to install where one is missing."""
    try:
        yield
    except ImportError as error:
        raise ValueError(f"{what}: {error}. Install it: {_install(error)}") from error
    except RecursionError as error:
        raise ValueError(f"{what}: it is nested too deeply") from error
    except (*UNREADABLE, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError) as error:
        raise ValueError(f"{what}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0]
    return f"it lacks {text}" if isinstance(error, KeyError) else text


def _install(error: ImportError) -> str:
    return "pip install torch" if error.name == "torch" else "pip install 'modtf[parquet]'"
