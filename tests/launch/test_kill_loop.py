"""A few random kills of the real command, and damaged checkpoints between them; many more by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOOP = Path(__file__).with_name("kill_loop.py")


@pytest.mark.skipif("MODTF_LONG_TESTS" not in os.environ, reason="minutes; set MODTF_LONG_TESTS=1")
def test_nothing_is_lost():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    command = [sys.executable, str(LOOP), "--kills=2", "--arch=mlp", "--steps=500"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "2 kills" in result.stdout
    assert "lost or different: nothing" in result.stdout
