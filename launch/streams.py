"""Makes a command's standard streams safe: closed, without a reader, or on a full disk."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from modtf.files import FULL


class SafeStream:
    """A text stream whose reader may leave: later output is dropped, and the command still writes its files.

    On a full disk the error names the stream.
    """

    def __init__(self, stream: IO[str], name: str):
        self._stream, self._name = stream, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or drop it."""
        with self._guarded():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what is buffered, or drop it."""
        with self._guarded():
            self._stream.flush()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # drops the buffer, even at the interpreter's end
            discard(self._stream.fileno())
        except OSError as error:
            if error.errno not in FULL:
                raise
            discard(self._stream.fileno())
            raise OSError(error.errno, os.strerror(error.errno), self._name) from error


@contextmanager
def open_streams() -> Iterator[None]:
    """Make `sys.stdout` and `sys.stderr` writable inside, whatever the shell connected them to."""
    for handle in range(3):
        with contextlib.suppress(OSError):
            os.fstat(handle)
            continue
        discard(handle)  # otherwise the next opened file would receive the output of libraries
    before = sys.stdout, sys.stderr
    streams = [(stream or open(os.devnull, "w")) for stream in before]  # noqa: SIM115  they stay open
    sys.stdout, sys.stderr = (
        SafeStream(stream, name)
        for stream, name in zip(streams, ("standard output", "standard error"), strict=True)
    )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        sys.stdout, sys.stderr = before


def discard(handle: int) -> None:
    """Connect a file descriptor to nothing."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != handle:
        os.dup2(nowhere, handle)
        os.close(nowhere)
