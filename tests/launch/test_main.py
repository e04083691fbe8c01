"""`modtf COMMAND`: the same code and flags as `python launch/COMMAND.py`."""

import ast
import importlib
import re
import shlex
import sys
from importlib import import_module

import pytest
from flag_values import given
from processes import ROOT, python, succeeds

from modtf.base.version import __version__
from modtf.base.words import command_line
from modtf.launch import main
from modtf.launch.main import COMMANDS, USAGE, usage


def test_the_commands_fit_on_a_screen(call):
    assert len(usage().splitlines()) <= 24
    assert max(map(len, usage().splitlines())) <= 100
    for words in ([], ["--help"], ["help"]):
        assert call(main.main, "modtf", *words) == (0, usage() + "\n", "")
    assert succeeds("-m", "modtf.launch.main") == usage() + "\n"


def test_every_command_is_listed():
    """A file with a function `command` is one."""
    files = {path.stem for path in (ROOT / "launch").glob("*.py") if "\ncommand = " in path.read_text()}
    assert files == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_help_by_both_names(call, name):
    command = importlib.import_module(f"modtf.launch.{name}").command
    _, by_file, _ = call(command, f"folder/{name}.py", "--help")
    status, by_name, _ = call(main.main, "modtf", name, "--help")
    assert status == 0
    assert by_file.replace(f"python launch/{name}.py", f"modtf {name}") == by_name
    assert f"    modtf {name} --" in by_name, "an example"


def test_help_on_measuring_loads_no_large_library():
    done = python("-X", "importtime", "-m", "modtf.launch.main", "measure", "--help")
    assert done.returncode == 0
    assert set(re.findall(r"\| +(numpy|scipy|pandas|matplotlib|tensorflow)$", done.stderr, re.M)) == {"numpy"}


def test_errors_are_one_line(call):
    assert call(main.main, "modtf", "run", "--rules=1") == (
        1, "", "modtf run: error: --rules=1 is not valid; expected an integer of at least 2.\n",
    )  # fmt: skip
    assert call(main.main, "modtf", "fly", "--high") == (
        1, "", f"modtf: error: 'fly' is not a command; expected one of {', '.join(COMMANDS)}. "
        "modtf --help says what they do.\n",
    )  # fmt: skip
    assert "Did you mean 'sweep'? modtf --help" in call(main.main, "modtf", "swep")[2]


def test_the_version(call):
    assert call(main.main, "modtf", "--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_ctrl_c_during_imports_is_one_line(name, monkeypatch, capsys):
    def interrupted(module):
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "import_module", interrupted)
    monkeypatch.setattr(sys, "argv", ["modtf", name])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert (ended.value.code, capsys.readouterr().err) == (130, f"\nmodtf {name}: interrupted.\n")


SOURCES = [path for folder in ("launch", "modtf") for path in (ROOT / folder).rglob("*.py")]


def suggested():
    """(file, line, command, flags) of every call of `command_line`; no command if it is computed."""
    for path in SOURCES:
        if path.is_symlink() or "command_line" not in path.read_text(encoding="utf-8"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command_line":
                first = node.args[0]
                name = first.value if isinstance(first, ast.Constant) else None
                yield f"{path.relative_to(ROOT)}:{node.lineno}", name, [flag.arg for flag in node.keywords]


@pytest.mark.parametrize(("where", "name", "flags"), list(suggested()))
def test_suggested_flags_exist(where, name, flags):
    """`tune` computes whether `run` or `sweep` uses what it found; its own test runs that line."""
    for command in ["run", "sweep"] if name is None else [name]:
        known = given(import_module(f"modtf.launch.{command}"))
        assert set(flags) <= set(known), f"{where}: {command}"


def test_what_is_suggested_at_all():
    assert {name for _, name, _ in suggested()} >= {None, "report", "sweep"}


def examples(text):
    return [line.partition(" #")[0].strip() for line in text.splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_of_the_help_have_flags_that_exist(name):
    module = import_module(f"modtf.launch.{name}")
    lines = [
        line.replace("python launch/", "modtf ").replace(".py", "", 1) for line in examples(module.__doc__)
    ]
    lines += [line for line in examples(USAGE) if line.startswith(f"modtf {name} ")]
    assert lines
    for line in lines:
        _, command, *arguments = shlex.split(line)
        values = given(import_module(f"modtf.launch.{command}"), *arguments)
        assert values.is_parsed(), line


def test_values_with_spaces_reach_the_command():
    line = command_line("report", "--claims", results="my runs", out="it's")
    assert shlex.split(line) == ["modtf", "report", "--claims", "--results=my runs", "--out=it's"]
