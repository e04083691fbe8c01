"""Runs cells one after the other in one process, and prints how its memory grows.

    python tests/modtf/engines/memory_growth.py --cells=50
    python tests/modtf/engines/memory_growth.py --cells=50 --shapes=50

The cells are of so many shapes, in turn. Those of a shape share what is compiled; what TensorFlow keeps of
every program that was compiled grows with the number of shapes, and ends with the process. Exit status 1
where the last `--window` cells hold more than `--most` times what the first did.
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
    parser.add_argument("--shapes", type=int, default=4)
    parser.add_argument("--window", type=int, default=10)
    parser.add_argument("--most", type=float, default=1.1)
    parser.add_argument("--arch", default="mlp")
    options = parser.parse_args()
    protocol = Protocol(Training(steps=2, batch_size=8, evaluations=1), SIZES)
    found = []
    with tempfile.TemporaryDirectory() as out:
        for number in range(options.cells):
            shape = number % options.shapes
            variant, width = VARIANTS[shape % len(VARIANTS)], 4 + shape // len(VARIANTS)
            began = time.process_time()
            members = ((0, 2 * number), (1, 2 * number + 1))
            cell = Cell(Task(options.arch), width, variant, members, protocol)
            run_cell(cell, out, verbose=False)
            gc.collect()
            found.append(resident())
            seconds = time.process_time() - began
            print(f"cell {number + 1}: {found[-1]:.0f} MiB, {seconds:.1f} s of CPU", flush=True)
    first, last = max(found[: options.window]), max(found[-options.window :])
    print(f"the most in the first cells {first:.0f} MiB, in the last {last:.0f} MiB")
    sys.exit(last > options.most * first)


if __name__ == "__main__":
    main()
