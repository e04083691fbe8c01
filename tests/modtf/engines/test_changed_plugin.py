"""Results of a plug-in's code do not pass for those of its changed code."""

import json
import sys
from dataclasses import replace

import pytest
from registering import forgotten

from modtf import Cell, Task
from modtf.base.plugins import load_plugin
from modtf.engines.state import state_of, write_config
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.results.cells import read_config
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


@pytest.fixture
def load(tmp_path):
    """load(text): register what the text of a plug-in registers, in place of an earlier text."""
    path = tmp_path / "changing_plugin.py"
    registries = FAMILIES, ARCHITECTURES, ROUTERS, MODELS

    def begin(text):
        sys.modules.pop(path.stem, None)
        path.write_text(text)
        load_plugin(path)

    with forgotten(*registries):
        yield begin
    sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("part", CHANGES)
def test_changed_code_is_refused(part, load, tmp_path):
    load(PLUGIN)
    cell = CHANGES[part]()
    folder = tmp_path / cell.folder
    folder.mkdir()
    write_config(cell, folder)
    load(f"# A comment.\n{PLUGIN}")
    assert state_of(cell, tmp_path).name == "open"
    load(PLUGIN.replace("1.5", "2.5"))
    with pytest.raises(ValueError, match=f"holds results of the {part}, whose file has changed since"):
        state_of(cell, tmp_path)
    known = {key: value for key, value in read_config(folder).items() if not key.endswith("source")}
    (folder / "config.json").write_text(json.dumps(known))
    assert state_of(cell, tmp_path).name == "open"  # an older version did not record it


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
    (folder := tmp_path / cell.folder).mkdir()
    write_config(cell, folder)
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
    (tmp_path / CELL.folder).mkdir()
    write_config(CELL, tmp_path / CELL.folder)
    assert not [key for key in read_config(tmp_path / CELL.folder) if key.endswith("source")]
