"""Every command that is printed, suggested or shown in a help text has a name and flags that exist."""

import ast
import shlex
from importlib import import_module

import pytest
from flag_values import given
from processes import ROOT

from modtf.base.words import command_line
from modtf.launch.main import COMMANDS, USAGE

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
