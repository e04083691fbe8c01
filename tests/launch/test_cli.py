"""Errors in one line, plug-ins before anything else, help."""

import os
import shlex
import subprocess
import sys
from functools import partial
from importlib import import_module

import pytest
from absl import flags
from processes import python

from modtf.launch.cli import plugins_given, run_command


def define_rules(values):
    flags.DEFINE_integer("rules", 2, "How many.", flag_values=values)


@pytest.fixture
def command(call):
    """Runs `main` as a command given these arguments; returns exit status, output and error."""

    def run(main, *arguments, **options):
        return call(lambda: run_command(main, define_rules, **options), "folder/command.py", *arguments)

    return run


def failing(error):
    def main(given):
        raise error

    return main


@pytest.mark.parametrize("error", [ValueError("rules=1 is too few"), OSError("rules=1 is too few")])
def test_an_error_is_one_line(command, error):
    assert command(failing(error)) == (1, "", "command.py: error: rules=1 is too few\n")


@pytest.mark.parametrize(("resumes", "hint"), [(True, "; rerun the command to resume"), (False, "")])
def test_an_interruption(command, resumes, hint):
    done = command(failing(KeyboardInterrupt()), resumes=resumes)
    assert done == (130, "", f"\ncommand.py: interrupted{hint}.\n")


def test_exit_of_others_is_no_success(command):
    done = command(failing(SystemExit(0)))
    assert done == (1, "", "command.py: error: sys.exit(0) was called before the command ended.\n")


PRINTS = """
import select
import sys
from pathlib import Path
from absl import flags
from modtf.launch.cli import run_command

def main(given):
    poll = select.poll()
    poll.register(1, 0)  # tells when the reader has left
    for number in range(2):
        print(number, flush=True)
        poll.poll(1_000)
    print("the rest")
    Path(sys.argv[1].partition("=")[2]).write_text("whole")

run_command(main, lambda values: flags.DEFINE_string("out", None, "", flag_values=values))
"""


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("{} | head -1", (141, "0\n", "")),
        ("{} >&-", (0, "", "")),
        ("{} 2>&-", (0, "0\n1\nthe rest\n", "")),
        ("{} >&- 2>&-", (0, "", "")),
        ("{} > /dev/full", (1, "", "-c: error: [Errno 28] No space left on device\n")),
    ],
)
def test_output_that_is_closed_or_not_read(shell, expected, tmp_path):
    program = shlex.join([sys.executable, "-c", PRINTS, f"--out={tmp_path / 'file'}"])
    command = "set -o pipefail; " + shell.format(program)
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == expected
    assert (tmp_path / "file").exists() == (expected[0] == 0)


@pytest.mark.parametrize(
    ("name", "flag"), [("measure", "--activations"), ("report", "--results"), ("prepare", "--data_dir")]
)
def test_a_named_pipe_is_refused(call, tmp_path, name, flag):
    os.mkfifo(tmp_path / "pipe")
    done = call(import_module(f"modtf.launch.{name}").command, name, f"{flag}={tmp_path / 'pipe'}")
    expected = f"{name}: error: {flag}={tmp_path / 'pipe'} is a pipe; expected a file or a folder.\n"
    assert done == (1, "", expected)


def test_a_mistake_of_ours_keeps_its_traceback(command):
    with pytest.raises(KeyError):
        command(failing(KeyError("bug")))


def test_plugins_are_loaded_before_flags_are_defined(command, tmp_path, monkeypatch):
    (tmp_path / "says_so.py").write_text("import sys\nsys.loaded_plugin = True\n")
    monkeypatch.setattr(sys, "loaded_plugin", False, raising=False)
    monkeypatch.delitem(sys.modules, "says_so", raising=False)
    order = []
    monkeypatch.setitem(globals(), "define_rules", lambda values: order.append(vars(sys)["loaded_plugin"]))
    status, *_ = command(lambda given: order.append(given.plugin), f"--plugin={tmp_path / 'says_so.py'}")
    assert status == 0
    assert order == [True, [str(tmp_path / "says_so.py")]]


def test_plugins_among_other_flags():
    given = "--arch=mine --plugin=a.py --nobaseline stray --plugin b --set x=--plugin=c"
    assert plugins_given(given.split()) == ["a.py", "b"]


@pytest.mark.slow
def test_tensorflow_is_imported_in_silence():
    code = (
        "import os, modtf; "
        "import keras, tensorflow; os.write(2, b'heard'); print(tensorflow.constant(3).numpy())"
    )
    environment = {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert (result.stdout, result.stderr) == ("3\n", "heard")


def test_a_failing_import_is_heard(tmp_path):
    (tmp_path / "tensorflow.py").write_text("import os\nos.write(2, b'why')\nraise ImportError('broken')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "import modtf\nimport tensorflow"
    result = python("-c", code)
    assert result.returncode == 1
    assert "why" in result.stderr
    assert "ImportError: broken" in result.stderr


def test_a_list_that_is_given_twice_would_lose_its_first_part(call):
    def define(values):
        flags.DEFINE_list("names", [], "Names.", flag_values=values)

    run = partial(run_command, lambda given: None, define)
    status, _, error = call(run, "folder/command.py", "--names=a,b", "--names=c")
    assert status == 1
    assert "--names is given 2 times; expected one list with commas" in error
