"""Every flag of every command with values that make no sense, and destinations that cannot be written: one
line and status 1, or the work begins."""

import contextlib
import errno
import importlib
import io
import shutil
import sys
import tempfile
from unittest.mock import Mock

import numpy as np
import pytest
from absl import flags
from fuzzing import WORDS, BeginsError, begin, few
from hypothesis import given
from hypothesis import strategies as st
from simulated_results import simulate

from modtf.launch.main import COMMANDS

#: command -> where its work begins, and arguments that it needs to come there
BEGINS = {
    "run": (["modtf.engines.cell.run_cell", "modtf.engines.run_study.run_study"], ["--steps=10"]),
    "sweep": (["modtf.engines.run_study.run_study", "modtf.launch.sweep.preview"], ["--arch=mlp"]),
    "tune": (["modtf.engines.run_study.run_study"], ["--steps=10"]),
    "report": (["modtf.analysis.study.Study.claims"], ["--results=study", "--out=out"]),
    "scorecard": (["modtf.launch.scorecard.train"], ["--variant=modular", "--smoke"]),
    "measure": (["modtf.launch.measure.measured"], ["--activations=x.npz", "--out=out"]),
    "prepare": (["modtf.launch.prepare.prepare"], ["--configs=mlp_regression_r2_task0"]),
}
NUMBERS = ["0", "-1", "1", "2", "1e400", "1e-400", "inf", "nan", "9" * 30, "0x10", "1_0", "1.5", "01", "٣"]
LISTS = [",", ",,", "1,2", "mlp,mlp", "mlp,nope", "modular,modular", "2,2", "a,b"]
SETTINGS = ["=", "x=", ".=", "task.=1", "router.modules=0", "router.modules=[", "router.temperature=nan"]
SETTINGS += ["training.steps=0", "training.steps=1e3", "evaluation.tokens=-1", "evaluation.conditions=nope"]
SETTINGS += ["model.cell=simple", "training.learning_rate=__import__('os')", "task.search=v3", "a.b=c"]
TEXTS = [text for text in [*WORDS, *NUMBERS, *LISTS, *SETTINGS] if "\0" not in text]


#: command -> the flag that says where it writes; default --out
DESTINATION = {"prepare": "--data_dir={}"}
UNWRITABLE = ["x.npz/below/new", "dangling", "\n" * 256]
WRITABLE = ["ünï çødé 🦊 out with 'quotes'", "--out"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = simulate(tmp_path_factory.mktemp("flags") / "study", num_evaluations=1)
    np.savez(folder.parent / "x.npz", activations=np.eye(4)[np.arange(40) % 4], labels=np.arange(40) % 4)
    return folder


@pytest.fixture(params=COMMANDS)
def command(request, study, monkeypatch):
    """Its name; what runs it to its exit status, or None where its work begins; and its flags."""
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
    return name, run, sorted(set(values) - {"plugin"})


@few
@given(data=st.data())
def test_flags(command, study, data):
    _, run, names = command
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
    texts = st.sampled_from(TEXTS) | st.text(st.characters(exclude_characters="\0"), max_size=6)
    arguments = [f"--{name}={data.draw(texts)}" for name in chosen]
    before = sorted(study.parent.rglob("*"))
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = run(*arguments)
    assert status in (0, 1, None), arguments
    if status == 1:
        assert ".py: error: " in errors.getvalue(), arguments
        assert "Traceback" not in errors.getvalue()
        assert len(errors.getvalue()) < 5000
        assert sorted(study.parent.rglob("*")) == before, arguments


@pytest.mark.parametrize("destination", [*UNWRITABLE, *WRITABLE, errno.EROFS])
def test_destinations(command, study, monkeypatch, destination):
    """A number stands for what the system says of them. Nothing is written where it cannot be."""
    name, run, _ = command
    (study.parent / "dangling").unlink(missing_ok=True)
    (study.parent / "dangling").symlink_to("nothing")
    before, errors, error = set(study.parent.rglob("*")), io.StringIO(), destination
    if isinstance(error, int):
        monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=OSError(error, "refused")))
        destination = "new"
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = run(DESTINATION.get(name, "--out={}").format(destination))
    made = set(study.parent.rglob("*")) - before
    if error in WRITABLE:
        assert status is None, errors.getvalue()
        assert {path.relative_to(study.parent).parts[0] for path in made} <= {destination.partition("/")[0]}
        shutil.rmtree(study.parent / destination.partition("/")[0], ignore_errors=True)
        return
    text = errors.getvalue()
    assert (status, made) == (1, set())
    assert text.startswith(f"{name}.py: error: ")
    assert any(words in text for words in ("cannot be written", "expected a path", "refused"))
    assert len(text.strip().splitlines()) == 1 + destination.count("\n") * (destination in text)
