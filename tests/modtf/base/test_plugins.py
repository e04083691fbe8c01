"""Plug-in files of users: their additions are found, and their faults are reported."""

import sys

import pytest
from registering import forgotten

import modtf
from modtf.base.plugins import PluginError, load_plugin
from modtf.tasks.families import FAMILIES

FAMILY = """
import modtf
from modtf.tasks.families.presets import quick_preset


@modtf.register_family("coins")
class Coins(modtf.Family):
    title = "Coins"
    data = "coins:Data"
    architecture = "mlp"
    is_sequence = False
    conditions = (modtf.Condition("iid", "as in training", True), modtf.Condition("heavy", "x 3", scale=3.0))
    headline = "heavy"
    options = (modtf.Option("metal", "gold", "what they are made of", choices=("gold", "lead")),)

    def token_width(self, task):
        return 3

    def published(self, task):
        return quick_preset(num_rules=2, tasks=1, seeds=1, steps=100, learning_rate=1e-3)

    quick = published
"""


@pytest.fixture(autouse=True)
def forget():
    """Remove a test's registrations and imports after the test."""
    modules = set(sys.modules)
    with forgotten(FAMILIES):
        yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(tmp_path, text, name="coins.py"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_family_from_outside_is_one_of_them(tmp_path):
    path = write(tmp_path, FAMILY)
    assert load_plugin(path) == str(path)
    task = modtf.Task("coins", metal="lead", num_rules=3)
    assert (task.name, task.token_width) == ("coins_lead_regression_r3_task0", 3)
    assert modtf.Task("coins").name == "coins_regression_r2_task0"
    assert modtf.Cell(task, 8, "modular", ((0, 0),)).protocol.training.steps == 100
    assert list(FAMILIES)[-1] == "coins"
    assert load_plugin(path) == str(path)  # again is free


def test_a_module_by_its_name(tmp_path, monkeypatch):
    write(tmp_path, FAMILY)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_plugin("coins") == "coins"
    assert "coins" in FAMILIES
    with pytest.raises(PluginError, match="'no_such_module' failed: ModuleNotFoundError"):
        load_plugin("no_such_module")
    for missing in (tmp_path / "missing.py", f"{tmp_path}/"):
        with pytest.raises(
            PluginError,
            match=r"does not exist as a file. Give a file that ends in .py, or the name of a module",
        ):
            load_plugin(missing)


def test_a_plugin_that_was_edited_is_not_mistaken_for_the_old_one(tmp_path):
    path = tmp_path / "edited_later.py"
    path.write_text("CELLS = 1")
    for _ in range(2):
        load_plugin(path)
    path.write_text("CELLS = 2")
    with pytest.raises(PluginError, match="has changed since this process loaded it"):
        load_plugin(path)


def test_a_plugin_that_raises(tmp_path):
    path = write(tmp_path, "import json\n\njson.loads('{')\n")
    with pytest.raises(PluginError, match=r"coins.py' failed in line 3: JSONDecodeError: Expecting property"):
        load_plugin(path)
    assert "coins" not in sys.modules
    path.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(PluginError, match=r"failed in line 2: SystemExit: 0"):
        load_plugin(path)
    path.write_text("def broken(:\n")
    with pytest.raises(PluginError, match=r"failed.*SyntaxError"):
        load_plugin(path)
    path.write_text(FAMILY)  # mended, it loads
    load_plugin(path)
    assert "coins" in FAMILIES


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        (
            "    def token_width(self, task):\n        return 3\n",
            r"'coins' does not define token_width\(task\)",
        ),
        ('    title = "Coins"\n', "'coins' does not define title"),
        ("    quick = published\n", r"'coins' does not define quick\(task\)"),
    ],
)
def test_a_plugin_that_misses_something(lacking, message, tmp_path):
    assert lacking in FAMILY
    with pytest.raises(PluginError, match=message):
        load_plugin(write(tmp_path, FAMILY.replace(lacking, "")))
    assert "coins" not in FAMILIES


def test_a_plugin_whose_module_is_there_already(tmp_path):
    with pytest.raises(PluginError, match=r"module 'json', which exists already .* Rename"):
        load_plugin(write(tmp_path, "", "json.py"))
    (tmp_path / "other").mkdir()
    load_plugin(write(tmp_path, FAMILY))
    with pytest.raises(PluginError, match="would become the module 'coins', which exists already"):
        load_plugin(write(tmp_path / "other", FAMILY))
