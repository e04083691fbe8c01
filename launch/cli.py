"""What all commands share: plug-ins, `--help`, errors in one line, quiet libraries."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import flags

from modtf.launch.help import help_of, wants_help
from modtf.launch.quiet import quiet_tensorflow
from modtf.plugins import load_plugin
from modtf.termination import Terminated, exit_on_sigterm


def run_command(
    main: Callable[[flags.FlagValues], None],
    define_flags: Callable[[flags.FlagValues], None],
    resumes: bool = False,
) -> None:
    """Loads plug-ins, defines and parses flags, runs `main`; bad input is one line and exit status 1.

    Ctrl-C ends with status 130, SIGTERM with 143.

    Args:
        main: the command, given its flags.
        define_flags: adds its flags; plug-ins are loaded by then, so it may list what they register. The
            docstring of its module and the flags, in their order, are what `--help` prints.
        resumes: whether the same command, given again, goes on where it was interrupted.
    """
    hint = "; the same command resumes where it was" if resumes else ""
    name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    quiet_tensorflow()
    try:
        with exit_on_sigterm():
            _run(main, define_flags, name, arguments)
    except (OSError, ValueError, flags.Error) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted{hint}.", file=sys.stderr)
        sys.exit(130)
    except Terminated:
        print(f"\n{name}: terminated{hint}.", file=sys.stderr)
        raise


def _run(
    main: Callable[[flags.FlagValues], None],
    define_flags: Callable[[flags.FlagValues], None],
    name: str,
    arguments: Sequence[str],
) -> None:
    for location in plugins_given(arguments):
        load_plugin(location)
    given = flags.FlagValues()
    define_flags(given)
    define_plugin(given)
    if wants_help(arguments):
        print(help_of(sys.modules[define_flags.__module__].__doc__ or "", given, name))
        return
    _, *stray = given([name, *arguments])
    if stray:
        raise ValueError(f"{stray[0]!r} was not expected; flags are written --name=value.")
    main(given)


def define_plugin(values: flags.FlagValues) -> None:
    """Adds --plugin."""
    flags.DEFINE_multi_string(
        "plugin",
        [],
        "File or module that registers families, architectures, routers, models, measures or figures; "
        "repeatable.",
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
