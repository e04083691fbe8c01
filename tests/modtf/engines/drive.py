"""Runs a study of dummy cells: `python drive.py OUT FUNCTION WORKERS STEPS CELLS`; says how it ended."""

import sys
from typing import Any

from modtf.engines.local import LocalEngine
from modtf.engines.run_study import run_study
from modtf.engines.work import Work
from modtf.studies import grid


def main() -> None:
    out, function, workers, steps, count = sys.argv[1:]
    sizes = {"batches": 1, "batch_size": 8, "tokens": 80, "draws": 2, "tokens_per_draw": 80, "conditions": ()}
    protocol: dict[str, Any] = {"training.steps": int(steps), "training.evaluations": int(steps) // 2}
    protocol["training.batch_size"] = 8
    protocol |= {f"evaluation.{name}": value for name, value in sizes.items()}
    widths = list(range(4, 4 + int(count)))
    cells = grid(arch="mlp", width=widths, num_rules=2, members=((0, 0), (1, 1)), **protocol).cells()
    print("started", flush=True)
    work = Work(out, function if ":" in function else f"dummy:{function}")
    summary = run_study(cells, work, LocalEngine(int(workers), retries=10), shown=False)
    print(dict(summary.counts), summary.stopped, flush=True)
    sys.exit(not summary.is_good)


if __name__ == "__main__":
    main()
