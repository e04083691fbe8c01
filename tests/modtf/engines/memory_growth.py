"""By hand: runs cells one after the other in one process, and prints how its memory grows.

    python tests/modtf/engines/memory_growth.py --cells=50

Every cell is of another width or variant, as in a study, so that each is built and compiled anew. Exit
status 1 where the last ten cells hold a tenth more than the first ten.
"""

import argparse
import gc
import sys
import tempfile
import time
from pathlib import Path

from modtf.cell import VARIANTS, Cell
from modtf.engines.cell import run_cell
from modtf.protocol import Evaluation, Protocol, Training
from modtf.task import Task

SIZES = Evaluation(
    batches=1, batch_size=8, tokens=80, activation_batch_size=8, draws=2, tokens_per_draw=80, conditions=()
)


def resident() -> float:
    """MiB of this process in main memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cells", type=int, default=50)
    parser.add_argument("--arch", default="mlp")
    options = parser.parse_args()
    protocol = Protocol(Training(steps=2, batch_size=8, evaluations=1), SIZES)
    found = []
    with tempfile.TemporaryDirectory() as out:
        for number in range(options.cells):
            variant, width = VARIANTS[number % len(VARIANTS)], 4 + number // len(VARIANTS)
            began = time.process_time()
            cell = Cell(Task(options.arch), width, variant, ((0, 0), (1, 0)), protocol)
            run_cell(cell, out, verbose=False)
            gc.collect()
            found.append(resident())
            seconds = time.process_time() - began
            print(f"cell {number + 1}: {found[-1]:.0f} MiB, {seconds:.1f} s of CPU", flush=True)
    first, last = max(found[:10]), max(found[-10:])
    print(f"the most in the first ten cells {first:.0f} MiB, in the last ten {last:.0f} MiB")
    sys.exit(last > 1.1 * first)


if __name__ == "__main__":
    main()
