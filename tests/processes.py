"""Python in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
Done = subprocess.CompletedProcess[str]


def python(*arguments: object, env: Mapping[str, str] | None = None, **how: Any) -> Done:
    """Runs it, with `env` added to the environment; `how` are further options of `subprocess.run`."""
    command, environment = [sys.executable, *map(str, arguments)], {**os.environ, **(env or {})}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **how)


def succeeds(*arguments: object, **how: Any) -> str:
    """Return what the command prints; fail with its output if its status is not 0."""
    done = python(*arguments, **how)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def command(name: str, *arguments: object, **how: Any) -> Done:
    """`python launch/NAME.py`."""
    return python(ROOT / "launch" / f"{name}.py", *arguments, **how)
