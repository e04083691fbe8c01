"""`modtf COMMAND`: the same code and flags as `python launch/COMMAND.py`."""

import subprocess
import sys
from pathlib import Path

import pytest

from modtf.launch import main
from modtf.launch.main import COMMANDS, usage
from modtf.version import __version__

LAUNCH = Path(__file__).parents[2] / "launch"


def run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)


def modtf(*arguments):
    return run("-m", "modtf.launch.main", *arguments)


def test_the_commands_fit_on_a_screen():
    assert len(usage().splitlines()) <= 24
    assert max(map(len, usage().splitlines())) <= 100
    for words in ([], ["--help"], ["help"]):
        done = modtf(*words)
        assert (done.returncode, done.stdout, done.stderr) == (0, usage() + "\n", "")


def test_every_command_is_listed():
    """A file with a function `command` is one."""
    files = {path.stem for path in LAUNCH.glob("*.py") if "\ndef command(" in path.read_text()}
    assert files == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_help_by_both_names(name):
    by_file, by_name = run(str(LAUNCH / f"{name}.py"), "--help"), modtf(name, "--help")
    assert by_file.returncode == by_name.returncode == 0, by_file.stderr + by_name.stderr
    assert by_file.stdout.replace(f"python launch/{name}.py", f"modtf {name}") == by_name.stdout
    assert f"    modtf {name} --" in by_name.stdout, "an example"


def test_the_same_errors_by_both_names():
    by_file, by_name = run(str(LAUNCH / "run.py"), "--rules=1"), modtf("run", "--rules=1")
    assert by_file.returncode == by_name.returncode == 1
    assert by_file.stderr.replace("run.py: ", "modtf run: ") == by_name.stderr


def test_an_unknown_command_is_one_line():
    done = modtf("fly", "--high")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"modtf: error: 'fly' is no command; expected one of {', '.join(COMMANDS)}. "
        "modtf --help says what they do.\n"
    )


def test_the_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["modtf", "--version"])
    main.main()
    assert capsys.readouterr().out == f"{__version__}\n"
