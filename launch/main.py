"""The console command `modtf`, which runs the commands of this folder, each with its own flags."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from modtf.base.checks import did_you_mean
from modtf.base.extras import MissingExtraError, tensorflow_named
from modtf.base.process import Terminated, exit_on_sigterm
from modtf.base.version import __version__

# A command is a file of this folder with a function `command`, and a line here.
COMMANDS = {
    "run": "train the variants on one cell and print how they compare",
    "sweep": "run a study: many cells, resumable, on one machine or many",
    "tune": "search the best learning rate and router options of every variant",
    "report": "turn results into figures, tables, one page and verdicts on the paper's claims",
    "scorecard": "train your router on frozen tasks and compare it with reference results",
    "measure": "measure what the modules of any mixture of experts specialise in, from its routing",
    "prepare": "write the finite splits of the data ahead of time",
}
USAGE = """\
modtf {version}: do the modules of a modular neural network specialise, and does it help?

Usage: modtf COMMAND [--flag=value ...]; modtf COMMAND --help lists its flags.

Commands:
{commands}

Examples:
    modtf run                                           # minutes on two cores
    modtf run --arch=mha --search=v2 --rules=8
    modtf run --plugin=my_router.py --variant=modular,my_router
    modtf sweep --study=quick --dry_run
    modtf tune --arch=mlp --variant=modular,top_k
    modtf report --results=runs --out=report --claims
    modtf measure --activations=x.npz --out=report       # arrays: activations, labels"""


def usage() -> str:
    """Return one screen of text: the commands, and examples."""
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"    {name.ljust(width)}  {words}" for name, words in COMMANDS.items())
    return USAGE.format(version=__version__, commands=commands)


def main() -> None:
    """Run the command that the first argument names; without one, print the commands."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in COMMANDS:
        sys.argv = [f"modtf {name}", *rest]
        _run(name, f"modtf {name}")
    elif name in ("--help", "-help", "-h", "help"):
        print(usage())
    elif name == "--version":
        print(__version__)
    else:
        print(
            f"modtf: error: {name!r} is not a command; expected one of {', '.join(COMMANDS)}."
            f"{did_you_mean(name, COMMANDS)} modtf --help says what they do.",
            file=sys.stderr,
        )
        sys.exit(1)


def run_file(path: str) -> NoReturn:
    """Run the command that a file of this folder defines, for `python launch/run.py`, and exit."""
    _run(Path(path).stem, Path(path).name)
    sys.exit()


def _run(command: str, name: str) -> None:
    try:
        with interruptible(name):
            run = import_module(f"modtf.launch.{command}").command
    except MissingExtraError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        sys.exit(1)
    run()


@contextmanager
def interruptible(name: str, hint: str = "") -> Iterator[None]:
    """Name the extra of a missing library. Ctrl-C and SIGTERM end with a line that ends with `hint`."""
    try:
        with exit_on_sigterm(), tensorflow_named(name):
            yield
    except KeyboardInterrupt:
        print(f"\n{name}: interrupted{hint}.", file=sys.stderr)
        sys.exit(130)
    except Terminated:
        print(f"\n{name}: terminated{hint}.", file=sys.stderr)
        raise


if __name__ == "__main__":
    main()
