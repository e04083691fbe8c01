"""A population compiles once: one trace, one program, whatever its size (goal 5)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import modtf
from modtf.models.architectures import ARCHITECTURES

model_class, traces = ARCHITECTURES["{arch}"], []
call = model_class.call
model_class.call = lambda self, features, training=None: (
    traces.append(features["inputs"].shape) or call(self, features, training)
)
tasks = [modtf.Task("{arch}", num_rules=2, data_seed=i % 5) for i in range({members})]
model = modtf.build(tasks, "modular", 8, list(range({members})))
traces.clear()

modtf.train(model, tasks, 8, batch_size=4, evaluations=2, evaluation=modtf.Evaluation(batches=1, tokens=8,
            draws=1, tokens_per_draw=8, batch_size=8, conditions=("iid",)), verbose=False)
print("traces", len([shape for shape in traces if shape[0] == 4]))
"""


def programs_and_traces(arch: str, members: int, dump: Path) -> tuple[int, int]:
    script = SCRIPT.format(arch=arch, members=members)
    environment = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump}", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=True,
    )
    programs = [p for p in dump.glob("*after_optimizations.txt") if "training_program" in p.name]
    return len(programs), int(done.stdout.split("traces")[-1])


@pytest.mark.slow
def test_a_population_compiles_once(tmp_path: Path) -> None:
    programs, traces = programs_and_traces("mlp", 6, tmp_path / "many")
    alone = programs_and_traces("mlp", 1, tmp_path / "one")
    assert (programs, alone[0]) == (1, 1)
    assert 1 <= traces <= alone[1]
