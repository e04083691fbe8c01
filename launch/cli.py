"""What all commands share: plug-ins, `--help`, errors in one line, quiet libraries."""

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import app, flags

from modtf.launch.help import help_of, wants_help
from modtf.launch.quiet import quiet_tensorflow
from modtf.plugins import load_plugin

DefineFlags = Callable[[flags.FlagValues], None]


def run_command(main: Callable[[], None], define_flags: DefineFlags, resumes: bool = False) -> None:
    """Loads plug-ins, defines and parses the flags, runs `main`; bad input is one line and exit status 1.

    Args:
        main: the command.
        define_flags: adds its flags; plug-ins are loaded by then, so it may list what they register. The
            first lines of its module's docstring and the flags are what `--help` prints.
        resumes: whether the same command, given again, goes on where it was interrupted.
    """
    name = Path(sys.argv[0]).name

    def guarded(action: Callable[[], Any]) -> None:
        try:
            action()
        except (OSError, ValueError, flags.Error) as error:
            print(f"{name}: error: {error}", file=sys.stderr)
            sys.exit(1)
        except KeyboardInterrupt:
            hint = "; the same command resumes where it was" if resumes else ""
            print(f"\n{name}: interrupted{hint}.", file=sys.stderr)
            sys.exit(130)

    def start(argv: Sequence[str]) -> None:
        if len(argv) > 1:
            raise ValueError(f"{argv[1]!r} was not expected; flags are written --name=value.")
        main()

    quiet_tensorflow()
    guarded(lambda: [load_plugin(location) for location in plugins_given(sys.argv[1:])])
    if wants_help(sys.argv[1:]):
        print(help_of(define_flags, name))
        return
    define_flags(flags.FLAGS)
    define_plugin(flags.FLAGS)
    app.run(lambda argv: guarded(lambda: start(argv)))


def define_plugin(values: flags.FlagValues) -> None:
    """Adds --plugin."""
    flags.DEFINE_multi_string(
        "plugin",
        [],
        "File or module that registers families, architectures, routers, measures or figures; repeatable.",
        flag_values=values,
    )


def plugins_given(arguments: Sequence[str]) -> list[str]:
    """The values of --plugin, which count before the other flags are known.

    Example:
        >>> plugins_given(["--arch=mine", "--plugin=mine.py", "--plugin", "more"])
        ['mine.py', 'more']
    """
    values = flags.FlagValues()
    define_plugin(values)
    values(["command", *arguments], known_only=True)
    return list(values.plugin)


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
