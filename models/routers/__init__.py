"""Routers: where the activation probabilities come from. One file and one line here adds a variant."""

from modtf.registry import Registry

ROUTERS: Registry = Registry(
    "variant",
    {
        "monolithic": "modtf.models.routers.single:SingleModule",
        "modular": "modtf.models.routers.self_scored:SelfScored",
        "modular_op": "modtf.models.routers.rule_only:RuleOnly",
        "gt_modular": "modtf.models.routers.ground_truth:GroundTruth",
    },
)
