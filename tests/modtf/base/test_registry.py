"""Names are imported on first use, all registries work alike, and errors list the known names."""

import sys

import pytest
from processes import succeeds

from modtf.base.registry import Registry, resolve


@pytest.fixture
def things(tmp_path, monkeypatch):
    """A registry of two things of the tree, in modules of which one does not register what it should."""
    registry: Registry = Registry(
        "thing", {"whole": "whole_thing", "empty": "empty_thing", "gone": "no_such"}
    )
    (tmp_path / "whole_thing.py").write_text(
        "from things import registry\n\n@registry.register('whole')\ndef whole():\n    return 1\n"
    )
    (tmp_path / "empty_thing.py").write_text("")
    (tmp_path / "things.py").write_text("registry = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    import things

    things.registry = registry
    yield registry
    for name in ("things", "whole_thing", "empty_thing"):
        sys.modules.pop(name, None)


def test_looks_up_on_first_use(things):
    assert list(things) == ["whole", "empty", "gone"]
    assert len(things) == 3
    assert "empty" in things
    assert "whole_thing" not in sys.modules
    assert things["whole"]() == 1
    with pytest.raises(ModuleNotFoundError, match="no_such"):
        things["gone"]
    with pytest.raises(KeyError, match="empty_thing does not register the thing 'empty'"):
        things["empty"]


def test_unknown_name(things):
    with pytest.raises(KeyError, match=r"Unknown thing: 'other'. Known: whole, empty, gone."):
        things["other"]
    assert "other" not in things


def test_a_registered_thing_is_one_of_them():
    registry: Registry = Registry("thing", {"first": "no_such"})

    @registry.register("mine")
    def mine():
        return 2

    assert list(registry) == ["first", "mine"]
    assert registry.outside == ["mine"]
    assert registry["mine"] is mine
    assert registry.register("mine")(mine) is mine  # again is nothing new


def test_a_clash_names_both():
    registry: Registry = Registry("thing", {})

    def mine():
        return 3

    def other():
        return 4

    registry.register("own")(mine)
    said = r"The thing 'own', registered by .*other, exists already, .* Choose another"
    with pytest.raises(ValueError, match=said):
        registry.register("own")(other)
    assert registry["own"] is mine


def test_resolve():
    assert resolve("json:loads")("1") == 1
    assert resolve(test_resolve) is test_resolve


REGISTRIES = """
import sys
from modtf.analysis.figures import FIGURES
from modtf.tasks.families import FAMILIES
from modtf.metrics.registry import MEASURES
from modtf.models.architectures import ARCHITECTURES
from modtf.models.routers import ROUTERS
for registry in (FIGURES, FAMILIES, MEASURES, ARCHITECTURES, ROUTERS):
    assert len(list(registry)) >= 2, registry.kind
    assert "no_such_name" not in registry
HEAVY = ("tensorflow", "keras", "jax", "matplotlib")
print([name for name in HEAVY if name in sys.modules])
"""


def test_listing_names_imports_no_framework_and_nothing_that_draws():
    assert succeeds("-c", REGISTRIES).strip() == "[]"
