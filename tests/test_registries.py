"""Every registry: its names import what they stand for, and what cannot be registered is refused."""

from functools import partial
from typing import Any

import pytest
from registering import forgotten

import modtf
from modtf.analysis.claims import CLAIMS
from modtf.analysis.figures import FIGURES
from modtf.engines import ENGINES
from modtf.metrics import MEASURES
from modtf.models.architectures import ARCHITECTURES
from modtf.models.own import MODELS
from modtf.models.recurrence import CELLS
from modtf.models.routers import ROUTERS
from modtf.routing.analyses import ANALYSES
from modtf.routing.formats.registry import FORMATS
from modtf.studies import STUDIES
from modtf.tasks.families import FAMILIES

FACTS: dict[str, Any] = {"group": "collapse", "range": (0.0, 1.0), "perfect": 0.0}
FACTS |= {"description": "A measure.", "axis_label": "A measure"}
CLAIM = {"text": "it holds", "figure": "ranking", "statistic": "share"}
#: registry, decorator of the public surface, why 42 is not what the registry holds
REGISTRIES = [
    (ANALYSES, modtf.register_analysis, r"expected a subclass of modtf\.routing\.Analysis"),
    (ARCHITECTURES, modtf.register_architecture, "must be a subclass of modtf.models.ModularModel, received"),
    (CELLS, CELLS.register, "does not define num_gates, num_states, step"),
    (CLAIMS, partial(modtf.register_claim, **CLAIM), "must be a function under @register_claim, received"),
    (ENGINES, ENGINES.register, r"does not define run\(cells, out, plugins"),
    (FAMILIES, modtf.register_family, "must be a subclass of modtf.Family, received 42"),
    (FIGURES, modtf.register_figure, r"must be a function draw\(study, choice\)"),
    (FORMATS, FORMATS.register, ""),
    (MEASURES, partial(modtf.register_measure, **FACTS), "function=42 cannot be called"),
    (MODELS, modtf.register_model, r"must be a function of \(task, width, seed\)"),
    (ROUTERS, modtf.register_router, "must be a subclass of modtf.models.Router, received 42"),
    (STUDIES, STUDIES.register, r"must be a function cells\(\) that returns cells, received 42"),
]


@pytest.mark.parametrize(("registry", "register", "reason"), REGISTRIES, ids=lambda r: getattr(r, "kind", ""))
def test_a_registry(registry, register, reason):
    with forgotten(registry):
        with pytest.raises(
            ValueError, match=f"'Two words' is not a valid name of an? {registry.kind}; expected lower"
        ):
            register("Two words")
        if reason:
            with pytest.raises(ValueError, match=f"'new_thing'.* {reason}"):
                register("new_thing")(42)
        assert "new_thing" not in registry
        for name in registry:
            clash = (
                rf"The {registry.kind} '{name}', registered by other:Thing, exists already, registered by .*"
            )
            with pytest.raises(ValueError, match=clash):
                registry.add(name, registry[name], "other:Thing")
