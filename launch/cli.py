"""The common parts of all commands: plug-ins, `--help`, and errors in one line."""

import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from absl import flags

from modtf.base.checks import check_choice
from modtf.base.files import is_pipe
from modtf.base.plugins import load_plugin
from modtf.launch.main import interruptible

#: flag of other programs -> hint for this one
KNOWN_ELSEWHERE = {
    "resume": "rerun the same command to resume",
    "epochs": "training is counted in --steps",
    "lr": "did you mean --learning_rate?",
    "results": "did you mean --out?",
    "gpus": "devices are detected; --strategy sets how several are used",
}
WIDTH = 110  # characters per line
NAMES = 27  # characters for a flag and its default


def run_command(
    main: Callable[[flags.FlagValues], None],
    define_flags: Callable[[flags.FlagValues], None],
    resumes: bool = False,
) -> None:
    """Load plug-ins, define and parse flags, run `main`; bad input is one line and exit status 1.

    Ctrl-C ends with status 130, SIGTERM with 143; with `resumes` the message says that the same command
    resumes. Plug-ins are loaded before `define_flags`, so it may list what they register. `--help` prints the
    docstring of its module and the flags, in their order. A pipe that its reader closes ends the command with
    status 141, silently.
    """
    hint = "; rerun the command to resume" if resumes else ""
    name, arguments = Path(sys.argv[0]).name, sys.argv[1:]
    for stream in ("stdin", "stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed: the next opened file would receive what libraries print
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115  it stays open
    try:
        with interruptible(name, hint), warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"{name}: warning: {message}", file=sys.stderr)
            for location in plugins_given(arguments):
                load_plugin(location)
            values = flags.FlagValues()
            define_flags(values)
            define_plugin(values)
            if {"--help", "-help", "-h", "--helpshort"} & set(arguments):
                print(help_of(sys.modules[define_flags.__module__].__doc__ or "", values, name, arguments))
            else:
                _, *stray = _parsed(values, [name, *arguments])
                if stray:
                    raise ValueError(f"the argument {stray[0]!r} is unexpected; write flags as --name=value.")
                check_no_pipe(values)
                main(values)
            sys.stdout.flush()  # a full disk is an error of the command
    except BrokenPipeError:
        _drop_output()
        sys.exit(141)
    except (OSError, ValueError, flags.Error) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        _drop_output()
        sys.exit(1)
    except SystemExit as stopped:
        if stopped.code:
            raise
        print(f"{name}: error: sys.exit(0) was called before the command ended.", file=sys.stderr)
        sys.exit(1)


def _drop_output() -> None:
    """Drop output that cannot be written: the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parsed(values: flags.FlagValues, arguments: list[str]) -> list[str]:
    """Return the arguments that are not flags; the error on an unknown flag suggests an existing one."""
    try:
        rest = values(arguments)
        for name in values:  # absl would keep the last list alone
            if values[name].present > 1 and isinstance(values[name].parser, flags.ListParser):
                times = values[name].present
                raise ValueError(f"--{name} is given {times} times; expected one list with commas.")
        return rest
    except flags.IllegalFlagValueError as error:
        refused = re.match(r"flag --(\w+)=(.*?): ", str(error), re.DOTALL)
        if refused is None:
            raise
        flag, value = refused.groups()
        check_choice(f"--{flag}", value, getattr(values[flag].parser, "enum_values", [value]))
        raise ValueError(f"--{flag}={value}: expected {values[flag].parser.syntactic_help}.") from None
    except flags.UnrecognizedFlagError as error:
        near = [f"--{name}" for name in get_close_matches(error.flagname, list(values), n=2)]
        hint = f"did you mean {' or '.join(near)}?" if near else "--help lists the flags"
        advice = KNOWN_ELSEWHERE.get(error.flagname, hint)
        raise ValueError(f"--{error.flagname}: this flag does not exist; {advice}") from None


def check_no_pipe(flag_values: flags.FlagValues) -> None:
    """Raise `ValueError` if a flag names a pipe: opening one may block for ever."""
    for name in flag_values:
        value = flag_values[name].value
        for text in value if isinstance(value, list) else [value]:
            for path in [text, *text.split(",")] if isinstance(text, str) else []:
                if is_pipe(path):
                    raise ValueError(f"--{name}={path} is a pipe; expected a file or a folder.")


class Definer:
    """absl's functions that add a flag, for the flags of one command: `Definer(values).string(...)`."""

    def __init__(self, values: flags.FlagValues):
        self._values = values

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        return partial(getattr(flags, f"DEFINE_{kind}"), flag_values=self._values)


def define_plugin(values: flags.FlagValues) -> None:
    """Add --plugin."""
    words = "A file or module that registers families, architectures, routers, models, measures or figures; "
    flags.DEFINE_multi_string("plugin", [], f"{words}repeatable.", flag_values=values)


def plugins_given(arguments: Sequence[str]) -> list[str]:
    """Return the values of --plugin, which are needed before the other flags are known."""
    return _values_of("plugin", flags.DEFINE_multi_string, arguments)


def _values_of(name: str, define: Callable[..., Any], arguments: Sequence[str]) -> list[str]:
    """Return the values of one flag among the arguments; the other flags need not be known."""
    values = flags.FlagValues()
    define(name, [], "", flag_values=values)
    values(["command", *arguments], known_only=True)
    return list(getattr(values, name))


def help_of(text: str, values: flags.FlagValues, name: str, arguments: Sequence[str] = ()) -> str:
    """Return the help of a command that its user called `name`, "run.py" or "modtf run".

    Options of tasks are listed by family: for the families of --arch among the arguments, or for all.
    """
    if name.startswith("modtf "):
        text = text.replace(f"python launch/{name.removeprefix('modtf ')}.py", name)
    by_flag = {flag: getattr(values[flag], "by_family", None) for flag in values}  # for options of tasks
    options = {flag: by_family for flag, by_family in by_flag.items() if by_family}
    lines = [text.strip(), "", "Flags:"]
    lines += [_flag_text(values[flag]) for flag in values if flag not in options]
    families = dict.fromkeys(family for by_family in options.values() for family in by_family)
    for family in (_values_of("arch", flags.DEFINE_list, arguments) or families) if options else ():
        own = [_option_text(flag, by[family]) for flag, by in options.items() if family in by]
        lines += ["", f"Options of tasks of --arch={family}:{'' if own else ' none.'}", *own]
    return "\n".join(lines)


def _option_text(name: str, option: Any) -> str:
    """Return an option of tasks with its default, its description, and its valid values."""
    if option.choices is not None:
        allowed = f"One of {', '.join(map(str, option.choices))}."
    elif option.high < float("inf"):
        allowed = f"From {option.low:g} to {option.high:g}."
    else:
        allowed = f"At least {option.low:g}."
    return _aligned(f"--{name}={option.default}", f"{option.description}. {allowed}")


def _flag_text(flag: flags.Flag[Any]) -> str:
    """Return a flag with its default, or its type, followed by its description."""
    if flag.boolean:
        shown = f"--[no]{flag.name}"
    elif flag.default in (None, [], ""):
        shown = f"--{flag.name}={flag.flag_type().split()[-1].upper()}"
    else:
        default = ",".join(map(str, flag.default)) if isinstance(flag.default, list) else flag.default
        shown = f"--{flag.name}={default}"
    choices = getattr(flag.parser, "enum_values", None)
    words = re.sub(r"^<[^>]*>: |;\s+repeat this option.*", "", flag.help or "", flags=re.DOTALL)  # absl's
    return _aligned(shown, f"{words} One of {', '.join(choices)}." if choices else words)


def _aligned(shown: str, words: str) -> str:
    """Return a flag followed by words on the same line, or below it if the flag is long."""
    first = f"  {shown}".ljust(NAMES) + " "
    if len(first) > NAMES + 1:
        first = f"{first.rstrip()}\n{' ' * (NAMES + 1)}"
    lines = textwrap.wrap(words, WIDTH - NAMES - 1)
    return first + f"\n{' ' * (NAMES + 1)}".join(lines)
