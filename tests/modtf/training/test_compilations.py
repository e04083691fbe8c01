"""A population compiles once: one trace, one program, whatever its size (goal 5)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import modtf
from modtf.models.architectures import ARCHITECTURES

model_class, traces = ARCHITECTURES["mlp"], []
call = model_class.call
model_class.call = lambda self, features, training=None: (
    traces.append(features["inputs"].shape) or call(self, features, training)
)
tasks = [modtf.Task("mlp", num_rules=2, data_seed=i % 5) for i in range({members})]
model = modtf.build(tasks, "modular", 8, list(range({members})))
traces.clear()

modtf.train(model, tasks, 8, batch_size=4, evaluations=2, evaluation=modtf.Evaluation(batches=1, tokens=8,
            draws=1, tokens_per_draw=8, batch_size=8, conditions=("iid",)), verbose=False)
print("traces", len([shape for shape in traces if shape[0] == 4]))
"""


@pytest.mark.slow
def test_a_population_compiles_once(tmp_path: Path) -> None:
    traces = []
    for members in (1, 6):
        dump = tmp_path / str(members)
        environment = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump}", "TF_CPP_MIN_LOG_LEVEL": "3"}
        command = [sys.executable, "-c", SCRIPT.format(members=members)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        traces.append(int(done.stdout.split("traces")[-1]))
        programs = [p.name for p in dump.glob("*after_optimizations.txt") if "training_program" in p.name]
        assert len(programs) == 1
    assert 1 <= traces[1] <= traces[0]
