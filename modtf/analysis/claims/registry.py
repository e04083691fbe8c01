"""All claims by name: functions under `@register_claim`, named in their experiment's table of parts."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from modtf.analysis.claims.evidence import Evidence
from modtf.base.checks import check_names
from modtf.base.registry import Registry, origin

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


CLAIMS: Registry[Claim] = Registry("claim", check=check_claim)


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
