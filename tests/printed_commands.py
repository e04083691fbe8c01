"""The commands that a command prints when it ends, and a shell that runs them."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from processes import ROOT


def commands_in(printed: str) -> list[str]:
    """Return what follows "Use it: ", "Look at it: ", "Look inside: " at the start of a line."""
    return re.findall(r"^(?:Use it|Look at it|Look inside): (.+)$", printed, re.MULTILINE)


def in_a_shell(line: str, folder: Path) -> str:
    """Run a line in a shell that finds `modtf` and `tensorboard`; return what it prints. It must succeed."""
    scripts = {"modtf": "modtf.launch.main", "tensorboard": "tensorboard.main"}
    (folder / "bin").mkdir(exist_ok=True)
    for name, module in scripts.items():
        path = folder / "bin" / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {module} "$@"\n')
        path.chmod(0o755)
    paths = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment = {**os.environ, **paths}
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
