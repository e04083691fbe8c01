"""Compare the CPU time of an evaluation with that of training, at a tenth of the published sizes and steps.

python docs/performance/evaluation.py --arch mlp mha rnn
"""

import argparse
import contextlib
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from steps import MEMORY, run_of, tensorflow_step, timed

import modtf
from modtf.evaluation.evaluator import Evaluator
from modtf.tasks.protocol import Protocol

FACTOR = 10  # published sizes and steps are divided by it
clock = time.process_time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--arch", nargs="+", default=["mlp"])
    parser.add_argument("--rules", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--variant", nargs="+", default=["monolithic", "modular"])
    parser.add_argument("--members", type=int, default=25)
    given = parser.parse_args()
    for arch, variant in ((arch, variant) for arch in given.arch for variant in given.variant):
        tasks = [modtf.Task(arch, num_rules=given.rules, data_seed=i % 5) for i in range(given.members)]
        protocol = Protocol.published(tasks[0])
        model = modtf.build(tasks, variant, given.width, [i // 5 for i in range(given.members)])
        sizes = protocol.evaluation.smaller(FACTOR, None)
        evaluator = Evaluator(model, model.population, sizes)
        compilation = timed(
            clock, evaluator.on(replace(sizes, batches=1, tokens=1, tokens_per_draw=1), "test").run
        )
        evaluation = timed(clock, evaluator.run)
        with contextlib.ExitStack() as opened, tempfile.TemporaryDirectory() as folder:
            call, steps, *_ = tensorflow_step(model, protocol.training, MEMORY, clock, opened, Path(folder))
            step = run_of(clock, call, steps)
            training = protocol.training.steps // FACTOR * step(max(2, int(0.3 / step(2))))
        print(f"{arch} {variant}: evaluation {evaluation:.2f} s, after {compilation:.2f} s of compilation; "
              f"training {training:.0f} s; share {evaluation / training:.2%}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
