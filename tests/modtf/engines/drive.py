"""Runs a study of dummy cells: `python drive.py OUT FUNCTION WORKERS STEPS CELLS`; says how it ended."""

import sys

from modtf.engines.local import LocalEngine
from modtf.engines.run_study import run_study
from modtf.engines.work import Work
from modtf.experiments.modarch.studies.testing import EVALUATION
from modtf.protocol import Protocol, Training
from modtf.studies import grid

if __name__ == "__main__":
    out, function, workers, steps, count = sys.argv[1:]
    training = Training(steps=int(steps), batch_size=8, evaluations=int(steps) // 2)
    cells = grid(
        arch="mlp",
        width=list(range(4, 4 + int(count))),
        num_rules=2,
        members=((0, 0), (1, 1)),
        protocol=Protocol(training, EVALUATION),
    ).cells()
    print("started", flush=True)
    work = Work(out, function if ":" in function else f"dummy:{function}")
    summary = run_study(cells, work, LocalEngine(int(workers), retries=10), shown=False)
    print(dict(summary.counts), summary.stopped, flush=True)
    sys.exit(not summary.is_good)
