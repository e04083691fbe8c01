"""All claims by name. A new one is a `Claim` in a file of this folder and one line here."""

from modtf.registry import Registry
from modtf.analysis.claims.base import Claim

HERE = "modtf.analysis.claims"
CLAIMS: Registry[Claim] = Registry(
    "claim",
    {
        "gt_modular_wins": f"{HERE}.performance:GT_MODULAR_WINS",
        "modular_small_margin": f"{HERE}.performance:MODULAR_SMALL_MARGIN",
        "advantage_grows": f"{HERE}.performance:ADVANTAGE_GROWS",
        "no_advantage_at_few_rules": f"{HERE}.performance:NO_ADVANTAGE_AT_FEW_RULES",
        "modular_op_beats_modular": f"{HERE}.performance:MODULAR_OP_BEATS_MODULAR",
        "collapse_grows": f"{HERE}.specialisation:COLLAPSE_GROWS",
        "specialisation_worsens": f"{HERE}.specialisation:SPECIALISATION_WORSENS",
        "modular_op_collapses_less": f"{HERE}.specialisation:MODULAR_OP_COLLAPSES_LESS",
        "random_does_not_collapse": f"{HERE}.specialisation:RANDOM_DOES_NOT_COLLAPSE",
        "random_specialises_worst": f"{HERE}.specialisation:RANDOM_SPECIALISES_WORST",
        "specialised_train_faster": f"{HERE}.learning:SPECIALISED_TRAIN_FASTER",
        "out_follows_in": f"{HERE}.learning:OUT_FOLLOWS_IN",
    },
)
