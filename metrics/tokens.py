"""The former module of `modtf.routing.measuring`. Its names still work, with a deprecation warning."""

from modtf.moved import moved_names

NAMES = (
    "ActivationAccumulator", "Compared", "Estimate", "Experts", "Factor", "LayerMeasures", "View",
    "compare_activations", "measure_activations", "measure_factors",
)  # fmt: skip

__getattr__ = moved_names(__name__, {name: f"modtf.routing.measuring:{name}" for name in NAMES})
