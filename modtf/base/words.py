"""Texts that modtf prints for its reader: counts, lines for the shell, and progress bars."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

EVERY = 30.0  # seconds between lines of progress in a file or a pipe
LOGS = "tensorboard"  # the folder of all logs, in a folder of results


def plural(count: int, word: str) -> str:
    """Return a count with its noun: "1 cell", "2,000 cells"."""
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def one_line(error: object, longest: int = 300) -> str:
    """Return the words of an error or another text in one line of so many characters."""
    return " ".join(str(error).split())[:longest]


def in_a_row(words: Sequence[str]) -> str:
    """Return words with commas, and "and" before the last.

    Example:
        >>> in_a_row(["one", "two", "three"])
        'one, two and three'
    """
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def command_line(command: str, *arguments: str, **flags: Any) -> str:
    """Return a line for the shell: a command of modtf with these arguments, then these flags.

    `tests/launch/test_main.py` finds every call of this function and tries its flags. It also runs the
    commands that a command prints at its end.

    Example:
        >>> command_line("report", results="my runs", out="report")
        "modtf report '--results=my runs' --out=report"
    """
    return shlex.join(["modtf", command, *arguments, *(f"--{name}={value}" for name, value in flags.items())])


def tensorboard_line(folder: Any) -> str:
    """Return the line for the shell that shows a folder of results in TensorBoard."""
    return shlex.join(["tensorboard", f"--logdir={Path(folder, LOGS)}"])


def progress_bar(*arguments: Any, shown: bool = True, **options: Any) -> Any:
    """Return a tqdm bar with these arguments.

    In files and pipes it prints a line at most every `EVERY` seconds, and its end; if it lasts for less,
    nothing, unless `delay=0` is given.
    """
    if not ("ipykernel" in sys.modules or sys.stderr.isatty()):
        lines = {"file": _Lines(), "ncols": 100, "ascii": True}
        options = {"delay": EVERY, **options, **lines}
    bar: Any = tqdm
    return bar(*arguments, disable=not shown, **options)


class _Lines:
    """Standard error, where states of a progress bar are lines: one in `EVERY` seconds, and the last."""

    def __init__(self) -> None:
        self._waiting, self._printed = "", -EVERY

    def write(self, text: str) -> None:
        self._waiting = text.strip() or self._waiting
        if self._waiting and (text == "\n" or time.monotonic() >= self._printed + EVERY):
            print(self._waiting, file=sys.stderr, flush=True)
            self._waiting, self._printed = "", time.monotonic()

    def flush(self) -> None:
        pass
