"""Trains modtf's models on the cells of `cells.py`, all seeds of a cell as one population.

    python docs/fidelity/ours.py --out=runs/matched --seeds=5

A cell that is finished is not trained again.
"""

import argparse
from pathlib import Path

from cells import (
    ACTIVATION_EXAMPLES,
    BATCH_SIZE,
    CELLS,
    EVALUATION_BATCHES,
    EVALUATIONS,
    LEARNING_RATE,
    VARIANTS,
    WIDTH,
    Matched,
)

import modtf

SMALLER = 10  # evaluations while training read a tenth


def cell_of(matched: Matched, variant: str, data_seed: int, seeds: int) -> modtf.Cell:
    """Return the cell with the same size, steps and evaluations as the released model's run."""
    task = modtf.Task(matched.arch, matched.setting, matched.num_rules, **matched.options)
    protocol = modtf.Protocol.published(task).replace(
        steps=matched.steps,
        learning_rate=LEARNING_RATE,
        evaluations=EVALUATIONS,
        batches=SMALLER * EVALUATION_BATCHES,
        tokens=SMALLER * ACTIVATION_EXAMPLES,
        activation_batch_size=BATCH_SIZE,
        draws=5,
        tokens_per_draw=SMALLER * 2_560,
        conditions=("scale2",),  # beside "iid", which is always measured: no other is compared
    )
    return modtf.Cell(task, WIDTH, variant, tuple((data_seed, seed) for seed in range(seeds)), protocol)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", nargs="+", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--data_seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    for name in given.cells:
        for variant in VARIANTS:
            modtf.run_cell(cell_of(CELLS[name], variant, given.data_seed, given.seeds), given.out)


if __name__ == "__main__":
    main()
