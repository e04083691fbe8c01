"""All claims by name. A new claim is a function under `@register_claim`; claims of modtf are listed here."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.analysis.claims.evidence import Evidence
from modtf.checks import check_names
from modtf.registry import Registry, origin

Find = Callable[[Any], Iterable[Evidence]]
Found = Iterator[Evidence]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence to judge. In every task type, all of its evidence must hold."""

    text: str
    figure: str  # the name of the figure that shows the numbers
    statistic: str  # the name of the statistic in the evidence
    evidence: Find  # is called with the part of a study that is one task type
    variants: tuple[str, ...] | None = None  # judge by these variants only; None: all
    families: tuple[str, ...] | None = None  # judge these families only; None: all
    router: str | None = None  # judge only if a model has this router, with any options; None: always


def check_claim(name: str, claim: Any) -> None:
    """Raise `ValueError` unless it is a claim."""
    if not isinstance(claim, Claim) or not callable(claim.evidence):
        raise ValueError(f"The claim {name!r} must be a function under @register_claim, received {claim!r}.")


#: modules in which experiments define their claims, in the order of the report
MODULES = {
    "modtf.experiments.modarch.claims.performance": """
        gt_modular_wins monolithic_comparable_at_few_rules no_advantage_at_few_rules modular_small_margin
        modular_op_beats_modular modular_well_behind gt_modular_beats_modular_op
        advantages_out_of_distribution out_follows_in advantage_grows modular_op_advantage_grows
    """,
    "modtf.experiments.modarch.claims.activation": """
        learned_activation_collapses collapse_grows modular_op_collapses_less far_from_gt_modular
        specialisation_worsens modular_op_specialises_better random_specialises_worst
    """,
    "modtf.experiments.modarch.claims.misrouting": """
        misrouting_costs_weighted misrouting_costs_sampled a_tenth_misrouted_is_cheap_weighted
        a_tenth_misrouted_is_cheap_sampled half_the_modules_cost_weighted half_the_modules_cost_sampled
        sampled_costs_more
    """,
    "modtf.experiments.corruptions.claims": """
        modular_composes invariance_changes_little accuracy_falls single_corruptions_are_learned
        elemental_invariance_says_nothing composed_invariance_goes_with_accuracy
        elemental_invariance_does_not_compose contrastive_raises_invariance lowest_severity_is_easier
        modular_spreads_at_three elemental_invariance_says_nothing_released
        composed_invariance_goes_with_accuracy_released elemental_invariance_does_not_compose_released
        contrastive_raises_invariance_released
    """,
    "modtf.experiments.vqa.claims": """
        group_encoders_beat_one group_encoders_beat_those_per_sub_task encoders_per_sub_task_beat_one
        classifiers_gain_nothing libraries_are_alike_in_distribution group_encoders_beat_the_usual
        residual_or_find_is_alike modular_encoders_beat_one_of_mixed_modules more_data_do_not_close_the_gap
        the_router_finds_groups
    """,
    "modtf.experiments.sqoop.claims": "trees_beat_plain_networks modules_per_symbol_beat_one",
}
CLAIMS: Registry[Claim] = Registry(
    "claim", {name: module for module, names in MODULES.items() for name in names.split()}, check_claim
)


def register_claim(
    name: str,
    *,
    text: str,
    figure: str,
    statistic: str,
    variants: Sequence[str] | None = None,
    families: Sequence[str] | None = None,
    router: str | None = None,
) -> Callable[[Find], Find]:
    """Register a function of a study as a claim that every report judges (a decorator).

    Args:
        name: lower-case letters, digits and underscores.
        text: the claim, in a sentence.
        figure: the name of the figure that shows the numbers.
        statistic: the name of the statistic that the function yields.
        variants: pass only these variants to the function, named as in the study; by default all. The claim
            is skipped if family and results have none of them, or only one of several.
        families: judge only these families and families derived from them; by default all.
        router: judge only if a model has this router, with any options.

    Returns:
        The decorator, which returns the function unchanged. The function is called with the part of a study
        that is one task type. It yields `Evidence`, or nothing if there are no suitable models.

    Raises:
        ValueError: if the name is taken or invalid.

    Example:
        >>> from modtf.analysis.claims import advantage, mean_evidence
        >>> @modtf.register_claim(  # doctest: +SKIP
        ...     "mine_beats_modular", text="mine beats modular", figure="paired_comparisons",
        ...     statistic="relative reduction of the loss or error",
        ... )
        ... def find(study):
        ...     yield mean_evidence(advantage(study, "mine", "modular"), "advantage", "mine over modular")
    """
    CLAIMS.check_name(name)
    only: dict[str, Any] = {
        "variants": variants and check_names("variants", variants),
        "families": families and check_names("families", families),
        "router": router,
    }

    def add(find: Find) -> Find:
        claim = Claim(text=text, figure=figure, statistic=statistic, evidence=find, **only)
        CLAIMS.add(name, claim, origin(find))
        return find

    return add


def documented_claim(figure: str, statistic: str, **only: Any) -> Callable[[Find], Find]:
    """Register a function as a claim under its own name; its docstring is the claim."""

    def add(find: Find) -> Find:
        text = str(find.__doc__).rstrip(".")
        return register_claim(find.__name__, text=text, figure=figure, statistic=statistic, **only)(find)

    return add
