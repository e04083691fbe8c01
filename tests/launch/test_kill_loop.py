"""A random kill of the real command, and a damaged checkpoint after it; many more by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
LOOP = Path(__file__).with_name("kill_loop.py")


def test_nothing_is_lost():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    command = [sys.executable, str(LOOP), "--kills=1", "--arch=mlp", "--steps=300"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "1 kills" in result.stdout
    assert "lost or different: nothing" in result.stdout
