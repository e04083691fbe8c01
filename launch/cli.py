"""What all commands share: errors in one line, quiet libraries."""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import app


def quiet_tensorflow() -> None:
    """Imports TensorFlow without its start-up lines, which go to the terminal whatever its log level."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # what it says later
    with tempfile.TemporaryFile() as said:
        terminal = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        except BaseException:
            said.seek(0)
            os.write(terminal, said.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def run_command(main: Callable[[], None], resumes: bool = False) -> None:
    """Parses the flags and runs `main`; bad input ends in one line and exit status 1.

    Args:
        main: the command.
        resumes: whether the same command, given again, goes on where it was interrupted.
    """
    name = Path(sys.argv[0]).name

    def guarded(argv: Sequence[str]) -> None:
        try:
            if len(argv) > 1:
                raise ValueError(f"{argv[1]!r} was not expected; flags are written --name=value.")
            main()
        except (OSError, ValueError) as error:
            print(f"{name}: error: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            hint = "; the same command resumes where it was" if resumes else ""
            print(f"\n{name}: interrupted{hint}.", file=sys.stderr)
            sys.exit(130)

    app.run(guarded)


def check_writable(folder: str | Path) -> Path:
    """Returns `folder`; raises `ValueError` where it cannot be written. Leaves nothing behind."""
    path = Path(folder)
    existing = next(p for p in [path, *path.absolute().parents] if p.exists())
    try:
        with tempfile.TemporaryDirectory(dir=existing):  # a superuser's permissions do not tell
            return path
    except OSError as error:
        raise ValueError(
            f"--out={folder} cannot be written: {existing} is not a folder open for writing "
            f"({error.strerror})."
        ) from error
