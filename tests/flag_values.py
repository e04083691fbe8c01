"""The flags of a command, read in this process."""

from types import ModuleType

from absl import flags

from modtf.launch.cli import define_plugin


def given(command: ModuleType, *arguments: str) -> flags.FlagValues:
    """What `command`, a module of `modtf.launch`, is given by these arguments."""
    values = flags.FlagValues()
    command.define_flags(values)
    define_plugin(values)
    values(["command", *arguments])
    return values
