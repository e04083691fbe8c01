"""Run analyses on a routing: `modtf.analyse_routing`."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from modtf.base.checks import check_callable
from modtf.routing.analyses.choices import read_choices
from modtf.routing.analyses.registry import ANALYSES, FEWEST, Analysed, Options, chosen_analyses
from modtf.routing.measuring.summarise import Progress
from modtf.routing.routing import Routing


@dataclass(frozen=True)
class Analyses:
    """The results of several analyses.

    Attributes:
        found: name -> result.
        missing: name -> one line that says why an analysis could not be computed.
    """

    found: dict[str, Analysed]
    missing: dict[str, str]


def analyse_routing(
    routing: Any,
    analyses: Iterable[str] | str | None = None,
    *,
    against: Any = None,
    permutations: int = FEWEST,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress = iter,
) -> Analyses:
    """Run the analyses of the field on a routing, each with a chance level and an interval over documents.

    Args:
        routing: a `Routing`, or what `modtf.read_routing` takes: a path or an object. Read logits by
            `modtf.read_routing(path, from_logits=True, top_k=K)` first.
        analyses: names of registered analyses; None: all.
        against: the same tokens as another checkpoint routed them; router saturation needs it.
        permutations: draws of the router that knows nothing, for the chance level; 0 for none. The smallest
            and the largest of 39 enclose 95% of further ones.
        confidence: the confidence level of the intervals.
        seed: the seed of all random numbers.
        progress: wraps the layers while they are analysed, for example `tqdm`.

    Returns:
        The results by name, and for each analysis that cannot be computed one line that says why.

    Raises:
        ValueError: if an argument is invalid, or an analysis is unknown.

    Example:
        >>> import numpy as np
        >>> experts = np.random.default_rng(0).integers(4, size=(400, 1))
        >>> found = analyse_routing({"experts": experts, "num_experts": 4}, "load").found["load"]
        >>> list(found.table["measure"].unique())[:2]
        ['utilisation', 'dead_experts']
    """
    check_callable("progress", progress)
    other = None if against is None else _as_routing(against)
    return run_analyses(
        _as_routing(routing), chosen_analyses(analyses), lambda some, desc: progress(some), against=other,
        permutations=permutations, confidence=confidence, seed=seed,
    )  # fmt: skip


def _as_routing(thing: Any) -> Routing:
    return thing if isinstance(thing, Routing) else Routing.read(thing)


def run_analyses(
    routing: Routing,
    names: Sequence[str],
    progress: Callable[..., Iterable[Any]],
    *,
    against: Routing | None = None,
    permutations: int,
    confidence: float,
    seed: int,
) -> Analyses:
    """Run analyses; `progress` wraps the chunks or layers of each, and takes what they are as `desc`."""
    if not names:
        return Analyses({}, {})
    bar = partial(progress, desc="reading choices")
    data = read_choices(routing, seed=seed, against=against, progress=bar)
    found, missing = {}, {}
    for name in names:
        analysis = ANALYSES[name]()
        why = analysis.missing(data)
        if why is not None:
            missing[name] = why
            continue
        options = Options(permutations, confidence, seed, partial(progress, desc=analysis.title))
        found[name] = analysis.analyse(data, options)
    return Analyses(found, missing)
