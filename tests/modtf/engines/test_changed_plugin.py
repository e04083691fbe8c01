"""Results of a plug-in's code do not pass for those of its changed code."""

import json
import sys
from dataclasses import replace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from registering import forgotten

from modtf import Cell, Task, run_cell
from modtf.base.plugins import load_plugin
from modtf.engines.state import state_of, write_config
from modtf.metrics import MEASURES
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.models.source import hash_of_source
from modtf.results.cells import read_config
from modtf.studies.grid import check_cell
from modtf.tasks.families import FAMILIES

PLUGIN = """
import modtf
from keras import ops
from modtf.tasks.families.mlp import MLP
from modtf.models import Router
from modtf.models.architectures.mlp import ModularMLP
from modtf.tasks.family import Variant


@modtf.register_router("of_plugin")
class OfPlugin(Router):
    needs_scores = True

    def call(self, rule=None, rule_features=None, scores=None):
        return sharper(scores, 1.5)


def sharper(scores, factor):
    return ops.softmax(factor * scores, axis=1)


@modtf.register_architecture("network_of_plugin")
class NetworkOfPlugin(ModularMLP):
    pass


@modtf.register_family("family_of_plugin")
class FamilyOfPlugin(MLP):
    pass


@modtf.register_family("in_files")
class InFiles(MLP):
    data = "plugin_data:Rules"
    variants = (Variant("modular", trainer="plugin_trainer:fit"),)
    reference, oracle = "modular", None


@modtf.register_model("model_of_plugin")
def model(task, width, seed):
    raise NotImplementedError
"""
CELL = Cell(Task(num_rules=2), 8, "modular", ((0, 0),))
CHANGES = {
    "router 'of_plugin'": lambda: replace(CELL, variant="of_plugin"),
    "architecture 'network_of_plugin'": lambda: replace(CELL, architecture="network_of_plugin"),
    "family 'family_of_plugin'": lambda: replace(CELL, task=Task("family_of_plugin", num_rules=2)),
    "model 'model_of_plugin'": lambda: replace(CELL, variant="model_of_plugin"),
}


def begin(cell, out):
    """Write what a cell is, as its run does first, and return its folder."""
    folder = out / cell.folder
    folder.mkdir()
    write_config(cell, folder)
    return folder


@pytest.fixture
def load(tmp_path):
    """load(text): register what the text of a plug-in registers, in place of an earlier text."""
    path = tmp_path / "changing_plugin.py"
    registries = FAMILIES, ARCHITECTURES, ROUTERS, MODELS

    def register(text):
        sys.modules.pop(path.stem, None)
        path.write_text(text)
        load_plugin(path)

    with forgotten(*registries):
        yield register
    sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("part", CHANGES)
def test_changed_code_is_refused(part, load, tmp_path):
    load(PLUGIN)
    cell = CHANGES[part]()
    folder = begin(cell, tmp_path)
    load(f"# A comment.\n{PLUGIN}")
    assert state_of(cell, tmp_path).name == "open"
    load(PLUGIN.replace("1.5", "2.5"))
    with pytest.raises(ValueError, match=f"holds results of the {part}, whose file has changed since"):
        state_of(cell, tmp_path)
    known = {key: value for key, value in read_config(folder).items() if not key.endswith("source")}
    (folder / "config.json").write_text(json.dumps(known))
    assert state_of(cell, tmp_path).name == "open"  # an older version did not record it


MEASURE = """
import modtf


@modtf.register_measure(
    "of_plugin", group="collapse", range=(0.0, 1.0), perfect=0.0, description="A half.", axis_label="Half"
)
def half(A):
    return 0.5
"""


def test_a_measure_that_changed_is_not_mixed_with_what_a_checkpoint_holds(load, tmp_path):
    with forgotten(MEASURES):
        load(MEASURE)
        folder = begin(CELL, tmp_path)
        load(MEASURE.replace("0.5", "0.6"))
        assert state_of(CELL, tmp_path).name == "open"  # nothing is trained yet
        (folder / "checkpoint.npz").touch()
        with pytest.raises(ValueError, match="with values of the measure 'of_plugin', whose file has"):
            state_of(CELL, tmp_path)
        load(f"# A comment.\n{MEASURE}")
        assert state_of(CELL, tmp_path).name == "open"


def test_a_cell_that_another_version_began_is_announced(tmp_path):
    folder = begin(CELL, tmp_path)
    (folder / "config.json").write_text(json.dumps({**read_config(folder), "version": "0.0.1"}))
    assert not state_of(CELL, tmp_path).remark("cell")  # nothing is trained yet
    (folder / "checkpoint.npz").touch()
    assert "cell was begun by modtf 0.0.1, whose" in state_of(CELL, tmp_path).remark("cell")


OTHER_FILES = {
    "plugin_data": "data of the family 'in_files'",
    "plugin_trainer": "trainer of the variant 'modular'",
}


@pytest.mark.parametrize("module", OTHER_FILES)
def test_changed_code_in_other_files_is_refused(module, load, tmp_path, monkeypatch):
    """Data and trainers may lie in other files. Looking at them does not import them."""
    load(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    cell = replace(CELL, task=Task("in_files", num_rules=2))
    for name in OTHER_FILES:
        (tmp_path / f"{name}.py").write_text("raise ImportError('number 1')\n")
    folder = begin(cell, tmp_path)
    (tmp_path / f"{module}.py").write_text("# A comment.\nraise ImportError('number 1')\n")
    assert state_of(cell, tmp_path).name == "open"
    (tmp_path / f"{module}.py").write_text("raise ImportError('number 2')\n")
    new = OTHER_FILES[module].split()[-2]
    message = (
        f"holds results of the {OTHER_FILES[module]}, whose file has changed since. Register the new {new} "
    )
    with pytest.raises(ValueError, match=message):
        state_of(cell, tmp_path)
    config = read_config(folder)
    del config[f"{module.partition('_')[2]}_source"]
    (folder / "config.json").write_text(json.dumps(config))
    assert state_of(cell, tmp_path).name == "open"  # an older version did not record it


def test_own_parts_record_nothing(load, tmp_path):
    load(PLUGIN)
    assert not [key for key in read_config(begin(CELL, tmp_path)) if key.endswith("source")]


def test_changed_neighbours_are_refused(load, tmp_path):
    """A plug-in may import files of its folder, which import others; installed packages do not count."""
    (tmp_path / "near_plugin.py").write_text("import numpy\nfrom inner_plugin import two\n")
    (tmp_path / "inner_plugin.py").write_text("two = 2\n")
    load(f"import near_plugin\n{PLUGIN}")
    cell = CHANGES["router 'of_plugin'"]()
    begin(cell, tmp_path)
    (tmp_path / "inner_plugin.py").write_text("# A comment.\ntwo = 2\n")
    assert state_of(cell, tmp_path).name == "open"
    (tmp_path / "inner_plugin.py").write_text("two = 3\n")
    with pytest.raises(ValueError, match="holds results of the router 'of_plugin', whose file has changed"):
        state_of(cell, tmp_path)
    for name in ("near_plugin", "inner_plugin"):
        del sys.modules[name]


def test_changed_files_of_a_package_are_noticed(tmp_path, monkeypatch):
    (package := tmp_path / "plugin_package").mkdir()
    (package / "__init__.py").write_text("")
    (package / "routers.py").write_text("import keras\nfrom . import gates\nfrom .gates import one\n")
    (package / "gates.py").write_text("one = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = hash_of_source("plugin_package.routers")
    (package / "gates.py").write_text("one = 2\n")
    assert before not in (None, hash_of_source("plugin_package.routers"))


NOTEBOOK = """
import modtf
from modtf.models import Router


@modtf.register_router("of_notebook")
class OfNotebook(Router):
    def call(self, rule=None, rule_features=None, scores=None):
        return 1.5 * scores


@modtf.register_model("model_of_notebook")
def model(task, width, seed):
    return 1.5
"""


@pytest.mark.parametrize("name", ["of_notebook", "model_of_notebook"])
def test_changed_code_of_a_notebook_is_refused(name, tmp_path):
    shell = InteractiveShell.instance()
    cell = replace(CELL, variant=name)
    with forgotten(ROUTERS, MODELS):
        assert shell.run_cell(NOTEBOOK).success
        begin(cell, tmp_path)
        assert shell.run_cell(NOTEBOOK).success
        assert state_of(cell, tmp_path).name == "open"
        assert shell.run_cell(NOTEBOOK.replace("1.5", "2.5")).success
        with pytest.raises(ValueError, match="whose file has changed since"):
            state_of(cell, tmp_path)


def test_the_model_of_a_cell_has_no_router_and_no_architecture(load, tmp_path):
    load(PLUGIN)
    cell = replace(CELL, variant="model_of_plugin")
    for change in ({"router": {"temperature": 3}}, {"architecture": "mha"}):
        for check in (check_cell, lambda one: run_cell(one, tmp_path)):
            with pytest.raises(ValueError, match=r"temperature=3|architecture='mha'"):
                check(replace(cell, **change))
