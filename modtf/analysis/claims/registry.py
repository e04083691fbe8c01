"""All claims by name. A new one is a function under `@register_claim`; those of the tree are listed here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from modtf.analysis.claims.evidence import Evidence
from modtf.registry import Registry

if TYPE_CHECKING:
    from modtf.analysis.study import Study

Find = Callable[["Study"], Iterator[Evidence]]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper. In every kind of task, all of its evidence must hold for it."""

    text: str
    figure: str  # the name of the figure it stands on
    statistic: str  # what the numbers of the evidence are
    evidence: Find  # of the part of a study that is one kind of task


def check_claim(name: str, claim: Any) -> None:
    """Raises `ValueError` unless it is a claim."""
    if not isinstance(claim, Claim) or not callable(claim.evidence):
        raise ValueError(f"The claim {name!r} must be a function under @register_claim, received {claim!r}.")


HERE = "modtf.analysis.claims"
CLAIMS: Registry[Claim] = Registry(
    "claim",
    {
        "gt_modular_wins": f"{HERE}.rankings",
        "monolithic_comparable_at_few_rules": f"{HERE}.few_rules",
        "no_advantage_at_few_rules": f"{HERE}.few_rules",
        "modular_small_margin": f"{HERE}.advantages",
        "modular_op_beats_modular": f"{HERE}.advantages",
        "modular_well_behind": f"{HERE}.advantages",
        "gt_modular_beats_modular_op": f"{HERE}.advantages",
        "advantages_out_of_distribution": f"{HERE}.advantages",
        "out_follows_in": f"{HERE}.rankings",
        "advantage_grows": f"{HERE}.growth",
        "modular_op_advantage_grows": f"{HERE}.growth",
        "learned_activation_collapses": f"{HERE}.collapse",
        "collapse_grows": f"{HERE}.growth",
        "modular_op_collapses_less": f"{HERE}.collapse",
        "far_from_gt_modular": f"{HERE}.specialisation",
        "specialisation_worsens": f"{HERE}.growth",
        "modular_op_specialises_better": f"{HERE}.specialisation",
        "random_specialises_worst": f"{HERE}.specialisation",
        "specialised_perform_better": f"{HERE}.learning",
        "specialised_train_faster": f"{HERE}.learning",
    },
    check_claim,
)


def register_claim(name: str, *, text: str, figure: str, statistic: str) -> Callable[[Find], Find]:
    """A decorator that makes a function of a study a claim, judged in every report.

    Args:
        name: lower-case letters, digits and underscores.
        text: the claim, in a sentence.
        figure: the name of the figure it stands on.
        statistic: what the numbers are.

    Returns:
        The decorator; it returns the function itself, which is called with the part of a study that is one
        kind of task and yields `Evidence`; nothing, where there are no such models.

    Raises:
        ValueError: if the name is taken or is none.

    Example:
        >>> @register_claim(  # doctest: +SKIP
        ...     "mine_beats_modular", text="mine beats modular", figure="paired_comparisons",
        ...     statistic="relative reduction of the loss or error",
        ... )
        ... def find(study):
        ...     yield mean_evidence(advantage(study, "mine", "modular"), "advantage", "mine over modular")
    """
    CLAIMS.check_name(name)

    def add(find: Find) -> Find:
        claim = Claim(text=text, figure=figure, statistic=statistic, evidence=find)
        CLAIMS.add(name, claim, f"{find.__module__}:{find.__qualname__}")
        return find

    return add
