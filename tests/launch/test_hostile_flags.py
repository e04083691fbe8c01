"""Every flag of every command with values that make no sense: one line and status 1, or the work begins."""

import contextlib
import importlib
import io
import sys

import numpy as np
import pytest
from absl import flags
from hostile import WORDS, few
from hypothesis import given
from hypothesis import strategies as st
from simulated_results import simulate

from modtf.launch.main import COMMANDS

#: command -> where its work begins, and arguments that it needs to come there
BEGINS = {
    "run": (["modtf.engines.cell.run_cell"], ["--steps=10"]),
    "sweep": (["modtf.engines.study.run_study", "modtf.launch.preview.preview"], ["--arch=mlp"]),
    "tune": (["modtf.tuning.run.run_search"], ["--steps=10"]),
    "report": (["modtf.analysis.study.Study.claims"], ["--results=study", "--out=out"]),
    "measure": (["modtf.measure_activations"], ["--activations=x.npz", "--out=out"]),
    "bench": (["modtf.launch.bench.measure", "modtf.launch.benchmark.device.measure.measure_cells"], []),
    "prepare": (["modtf.launch.prepare.prepare"], ["--configs=mlp_regression_r2_task0"]),
}
NUMBERS = ["0", "-1", "1", "2", "1e400", "1e-400", "inf", "nan", "9" * 30, "0x10", "1_0", "1.5", "01", "٣"]
LISTS = [",", ",,", "1,2", "mlp,mlp", "mlp,nope", "modular,modular", "2,2", "a,b"]
SETTINGS = ["=", "x=", ".=", "task.=1", "router.modules=0", "router.modules=[", "router.temperature=nan"]
SETTINGS += ["training.steps=0", "training.steps=1e3", "evaluation.tokens=-1", "evaluation.conditions=nope"]
SETTINGS += ["model.cell=simple", "training.learning_rate=__import__('os')", "task.search=v3", "a.b=c"]
TEXTS = [text for text in [*WORDS, *NUMBERS, *LISTS, *SETTINGS] if "\0" not in text]


class BeginsError(Exception):
    """The work has begun: everything was in order."""


def begin(*_, **__):
    raise BeginsError


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = simulate(tmp_path_factory.mktemp("flags") / "study", num_evaluations=1)
    np.savez(folder.parent / "x.npz", activations=np.eye(4)[np.arange(40) % 4], labels=np.arange(40) % 4)
    return folder


@pytest.fixture(params=COMMANDS)
def command(request, study, monkeypatch):
    """Runs a command to its exit status, or None where its work begins; and its flags."""
    name = request.param
    assert name in BEGINS, f"say in BEGINS where the work of {name} begins"
    places, needed = BEGINS[name]
    for place in places:
        monkeypatch.setattr(place, begin)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.chdir(study.parent)
    module = importlib.import_module(f"modtf.launch.{name}")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *needed, *arguments])
        try:
            module.command()
        except BeginsError:
            return None
        except SystemExit as stopped:
            return stopped.code
        return 0

    values = flags.FlagValues()
    module.define_flags(values)
    return run, sorted(set(values) - {"plugin"})


@few
@given(data=st.data())
def test_flags(command, study, data):
    run, names = command
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_characters="\0"), max_size=6)
    arguments = [f"--{name}={data.draw(texts)}" for name in chosen]
    before = sorted(study.parent.rglob("*"))
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        status = run(*arguments)
    assert status in (0, 1, None), arguments
    if status == 1:
        assert ".py: error: " in said.getvalue(), arguments
        assert "Traceback" not in said.getvalue()
        assert len(said.getvalue()) < 5000
        assert sorted(study.parent.rglob("*")) == before, arguments
