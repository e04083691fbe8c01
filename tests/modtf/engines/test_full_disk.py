"""A disk that fills up during a study. The test mounts a small disk, which needs a superuser."""

import contextlib
import os
import subprocess

import pytest

from modtf.engines.local import LocalEngine
from modtf.engines.run_study import run_study
from modtf.engines.state import state_of
from modtf.engines.work import Work

SIZE = 1 << 20  # bytes

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"No file system can be mounted here: {error}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


@pytest.mark.parametrize("room", [0, 5_000, 60_000])
def test_the_study_stops_and_goes_on_when_there_is_room(small_disk, cells, work, room):
    """The disk is full at the first lock, in a checkpoint, or in the results."""
    ballast, out = small_disk / "ballast", small_disk / "out"
    out.mkdir()
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    os.truncate(ballast, max(0, ballast.stat().st_size - room))
    study = Work(str(out), "dummy:large")
    summary = run_study(cells, study, LocalEngine(2), shown=False)
    assert "is full; free some space and rerun the command" in summary.stopped
    assert not summary.is_good
    assert {state_of(cell, out).name for cell in cells} <= {"open", "finished"}
    ballast.unlink()
    summary = run_study(cells, study, LocalEngine(2), shown=False)
    assert summary.is_good, (summary.stopped, summary.failed)
    for cell in cells:
        assert (out / cell.folder / "results.csv").read_text() == f"{cell.label},20\n"
