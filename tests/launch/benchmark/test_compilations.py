"""A population compiles once: one trace, one program, whatever its size (goal 5)."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import modtf
from modtf.models.architectures.{arch} import Modular{name} as model_class

traces = []
call = model_class.call
model_class.call = lambda self, features: traces.append(features["inputs"].shape) or call(self, features)
tasks = [modtf.Task("{arch}", num_rules=2, data_seed=i % 5) for i in range({members})]
model = modtf.build(tasks, "modular", 8, list(range({members})))
traces.clear()

from modtf.losses import SettingLoss
from modtf.optimizer import MemberAdam
model.compile(MemberAdam(1e-3, {members}), {{"target": SettingLoss("regression")}}, jit_compile=True,
              steps_per_execution=2)
data = modtf.stream(tasks, 4, seed=list(range({members}))).map(lambda f, y: (f, {{"target": y}}))
model.fit(data, epochs=3, steps_per_epoch=4, verbose=0, shuffle=False)
print("traces", len([shape for shape in traces if shape[0] == 4]))
"""


def programs_and_traces(arch: str, members: int, dump: Path) -> tuple[int, int]:
    script = SCRIPT.format(arch=arch, name=arch.upper(), members=members)
    environment = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump}", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=True,
    )
    programs = [p for p in dump.glob("*after_optimizations.txt") if "one_step_on_data" in p.name]
    return len(programs), int(done.stdout.split("traces")[-1])


def test_a_population_of_25_compiles_once(tmp_path: Path) -> None:
    programs, traces = programs_and_traces("mlp", 25, tmp_path / "many")
    assert programs == 1
    assert (programs, traces) == programs_and_traces("mlp", 1, tmp_path / "one")
