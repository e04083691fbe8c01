"""Cell functions without training, for real processes: referred to as "dummy:NAME" from their folder."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

from modtf.base.files import write_text
from modtf.base.registry import resolve
from modtf.engines.state import work_on


class Here:
    """An engine in this process."""

    is_here = True

    def run(self, cells, out, plugins, function):
        for cell in cells:
            work_on(cell, out, resolve(function))
            yield

    def close(self):
        pass


def steps(cell, out, report, seconds=0.0, at=None):
    """Counts the steps in a checkpoint, and writes a result that depends on the cell alone."""
    folder = Path(out, cell.folder)
    folder.mkdir(exist_ok=True)
    checkpoint = folder / "checkpoint.npz"
    begun = int(checkpoint.read_text()) if checkpoint.exists() else 0
    total = cell.protocol.training.steps
    with Path(folder, "history.csv").open("a") as file:
        for step in range(begun + 1, total + 1):
            time.sleep(seconds)
            file.write(f"{step}\n")
            file.flush()
            write_text(checkpoint, str(step))
            report(step)
            if at is not None:
                at(step)
    write_text(folder / "config.json", json.dumps(cell.to_dict()))
    write_text(folder / "results.csv", f"{cell.label},{total}\n")
    checkpoint.unlink()
    return folder


def results(out: Path) -> dict[str, str]:
    """Name of a finished cell's folder -> what it found."""
    return {path.parent.name: path.read_text() for path in out.glob("*/results.csv")}


slow_steps, slowest_steps = partial(steps, seconds=0.005), partial(steps, seconds=0.1)


def fail(step):
    """Fail like a cell that cannot be trained."""
    if step == 2:
        raise ValueError("this cell\ncannot be trained")


def kill(step):
    """Kill the process, as the system does if it uses too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def raising(cell, out, report):
    """Cells of width 6 fail at their second step."""
    return steps(cell, out, report, at=fail if cell.width == 6 else None)


def dying(cell, out, report):
    """Cells of width 6 kill their process at every step."""
    return steps(cell, out, report, at=kill if cell.width == 6 else None)


def dying_once(cell, out, report):
    """The process dies at the third step of the cell of width 6; a resumed cell does not die again."""
    return steps(cell, out, report, at=lambda step: cell.width == 6 and step == 3 and kill(step))


def growing(cell, out, report, held=[]):  # noqa: B006  # a list for the whole process
    """Hold 32 MiB more after every cell."""
    held.append(b"1" * (32 << 20))
    return steps(cell, out, report)


def printing(cell, out, report):
    """Print the allowed number of threads, bypassing Python's stdout."""
    os.write(1, f"{os.environ['TF_NUM_INTRAOP_THREADS']} threads\n".encode())
    return steps(cell, out, report)
