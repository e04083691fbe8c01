"""What `--help` prints: what the command does, examples, its flags, those that people use first before."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from absl import flags

WIDTH = 110  # characters of a line
NAMES = 27  # of them for a flag and its default


def wants_help(arguments: Sequence[str]) -> bool:
    """Whether one of the arguments asks for help."""
    return any(argument in ("--help", "-help", "-h", "--helpshort") for argument in arguments)


def help_of(text: str, values: flags.FlagValues, name: str) -> str:
    """The help of a command.

    Args:
        text: what it does, and examples that begin with "python launch/NAME.py".
        values: its flags, those that people use first first.
        name: of the program, as the user called it: "run.py" or "modtf run".
    """
    if name.startswith("modtf "):
        text = text.replace(f"python launch/{name.removeprefix('modtf ')}.py", name)
    return "\n".join([text.strip(), "", "Flags:", *(_flag_text(values[flag]) for flag in values)])


def _flag_text(flag: flags.Flag[Any]) -> str:
    """A flag with its default, or what it takes, and its description beside it."""
    if flag.boolean:
        shown = f"--[no]{flag.name}"
    elif flag.default in (None, [], ""):
        shown = f"--{flag.name}={flag.flag_type().split()[-1].upper()}"
    else:
        default = ",".join(map(str, flag.default)) if isinstance(flag.default, list) else flag.default
        shown = f"--{flag.name}={default}"
    choices = getattr(flag.parser, "enum_values", None)
    words = re.sub(r"^<[^>]*>: |;\s+repeat this option.*", "", flag.help or "", flags=re.DOTALL)  # absl's
    words = f"{words} One of {', '.join(choices)}." if choices else words
    first = f"  {shown}".ljust(NAMES) + " "
    if len(first) > NAMES + 1:
        first = f"{first.rstrip()}\n{' ' * (NAMES + 1)}"
    lines = textwrap.wrap(words, WIDTH - NAMES - 1)
    return first + f"\n{' ' * (NAMES + 1)}".join(lines)
