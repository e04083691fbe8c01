"""Old import names give what the new ones give, with a deprecation warning."""

from importlib import import_module

import pytest

OLD = {
    "modtf.metrics:measure_activations": "modtf.routing.measuring:measure_activations",
    "modtf.metrics.tokens:Experts": "modtf.routing.measuring:Experts",
    "modtf.collecting:collect": "modtf:collect",
    "modtf.analysis.atlas:write_atlas": "modtf:write_routing_report",
}


def named(path):
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@pytest.mark.parametrize("old", OLD)
def test_an_old_name_is_the_new_one(old):
    with pytest.warns(DeprecationWarning, match=r"is now modtf\.routing"):
        assert named(old) is named(OLD[old])


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'modtf\.metrics\.tokens' has no attribute 'nothing'"):
        named("modtf.metrics.tokens:nothing")
