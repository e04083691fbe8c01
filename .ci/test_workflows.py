"""GitHub's workflows call commands of this repository, which run here too."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SCRIPTS = {name: (ROOT / ".ci" / name).read_text(encoding="utf-8") for name in ("check", "release", "run")}


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_what_is_here(path):
    content = read(path)
    commands = [step["run"] for job in content["jobs"].values() for step in job["steps"] if "run" in step]
    assert commands
    assert content[True]  # "on", which YAML reads as a truth
    for command in commands:
        assert "\n" not in command, "a thin call, no script"
        assert re.match(r"\.ci/|python3 -m venv \.venv && |\.venv/bin/mkdocs ", command)
        for script in re.findall(r"(?<!\S)\.ci/\w+", command):
            assert (ROOT / script).stat().st_mode & 0o111


def test_every_supported_python_is_tried():
    tried = read(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["run"]["strategy"]["matrix"]["python"]
    assert tried == [text.split()[-1] for text in PROJECT["classifiers"] if "Python :: 3." in text]


def test_before_a_commit_and_in_ci_the_same_is_checked():
    repositories = read(ROOT / ".pre-commit-config.yaml")["repos"]
    (local,) = [each["hooks"] for each in repositories if each["repo"] == "local"]
    assert [hook["entry"] for hook in local] == [".ci/check"]
    assert "\n.ci/check\n" in SCRIPTS["run"]
    assert "\n.ci/release\n" in SCRIPTS["run"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_extras_that_are_installed_exist(script):
    extras = set(re.findall(r"\.\[([\w,]+)\]'", SCRIPTS[script]))
    assert {name for group in extras for name in group.split(",")} <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_something(path):
    form = read(path)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert form["name"]
    assert form["description"]
    assert len({field["id"] for field in fields}) == len(fields) >= 3
    assert all(field["attributes"]["label"] for field in fields)


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_a_script_names_exists(script):
    named = re.findall(r"(?<![\w/])(?:tests|launch|docs|examples)/[\w/.]+", SCRIPTS[script])
    assert [path for path in named if not (ROOT / path).exists()] == []
