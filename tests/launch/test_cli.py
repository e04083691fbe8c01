"""Errors in one line, and where a command may write."""

import subprocess
import sys

import pytest
from absl import flags

from modtf.launch.cli import check_writable, run_command


@pytest.fixture
def command(monkeypatch):
    """Runs `main` as a command given these arguments; returns the exit status."""

    def run(main, *arguments, **options):
        monkeypatch.setattr(sys, "argv", ["folder/command.py", *arguments])
        with pytest.raises(SystemExit) as stopped:
            run_command(main, **options)
        return stopped.value.code

    if not flags.FLAGS.is_parsed():
        flags.FLAGS(["test"])
    return run


def failing(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize("error", [ValueError("rules=1 is too few"), OSError("rules=1 is too few")])
def test_an_error_is_one_line(command, capsys, error):
    assert command(failing(error)) == 1
    captured = capsys.readouterr()
    assert captured.err == "command.py: error: rules=1 is too few\n"
    assert captured.out == ""


def test_a_stray_argument(command, capsys):
    assert command(lambda: None, "mlp") == 1
    assert capsys.readouterr().err == (
        "command.py: error: 'mlp' was not expected; flags are written --name=value.\n"
    )


@pytest.mark.parametrize(
    ("resumes", "hint"), [(True, "; the same command resumes where it was"), (False, "")]
)
def test_an_interruption(command, capsys, resumes, hint):
    assert command(failing(KeyboardInterrupt()), resumes=resumes) == 130
    assert capsys.readouterr().err == f"\ncommand.py: interrupted{hint}.\n"


def test_a_mistake_of_ours_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["command.py"])
    with pytest.raises(KeyError):
        run_command(failing(KeyError("bug")))


def test_check_writable(tmp_path):
    assert check_writable(tmp_path / "new" / "folder") == tmp_path / "new" / "folder"
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match=f"--out={path} cannot be written: .*file is not a folder"):
            check_writable(path)


def test_tensorflow_is_imported_in_silence():
    code = (
        "import os; from modtf.launch.cli import quiet_tensorflow; quiet_tensorflow(); os.write(2, b'heard')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "heard")
