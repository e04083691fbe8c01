"""Errors in one line, plug-ins before anything else, help."""

import subprocess
import sys

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


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("mlp", "'mlp' was not expected; flags are written --name=value."),
        ("--rules=many", "flag --rules=many: invalid literal for int() with base 10: 'many'"),
        ("--rulse=3", "--rulse: there is no such flag; did you mean --rules?"),
        ("--resume", "--resume: there is no such flag; resuming is automatic: give the same command again"),
        ("--plugin", "Missing value for flag --plugin"),
        ("--plugin=no", "The plug-in 'no' failed: ModuleNotFoundError: No module named 'no'"),
    ],
)
def test_bad_arguments_are_one_line(command, argument, expected):
    done = command(failing(AssertionError("it ran")), argument)
    assert done == (1, "", f"command.py: error: {expected}\n")


@pytest.mark.parametrize(
    ("resumes", "hint"), [(True, "; the same command resumes where it was"), (False, "")]
)
def test_an_interruption(command, resumes, hint):
    done = command(failing(KeyboardInterrupt()), resumes=resumes)
    assert done == (130, "", f"\ncommand.py: interrupted{hint}.\n")


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


def test_help_is_what_the_file_says_and_the_flags(command):
    status, shown, _ = command(failing(AssertionError("it ran")), "--help")
    assert status == 0
    assert shown.startswith(str(__doc__))
    assert "  --rules=2                 How many.\n" in shown


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
