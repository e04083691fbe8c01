"""The flags of a command, read in this process."""

from types import ModuleType

from absl import flags

from modtf.launch.cli import define_plugin


def given(command: ModuleType, *arguments: str) -> flags.FlagValues:
    """Return the flag values of `command`, a module of `modtf.launch`, for these arguments."""
    values = flags.FlagValues()
    command.define_flags(values)
    define_plugin(values)
    values(["command", *arguments])
    return values
