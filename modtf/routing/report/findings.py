"""Sentences that say what was found, for the first screen of a report."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from modtf.metrics.distributions import entropy
from modtf.pages.text import plural
from modtf.routing.analyses import ANALYSES, Analysed
from modtf.routing.analyses.sentences import (
    above_chance,
    corrected_limits,
    layers_text,
    lower_first,
    number,
    number_range,
    widened,
)
from modtf.routing.measuring import Estimate, LayerMeasures
from modtf.routing.measuring.activations import Counted
from modtf.routing.measuring.compare import Compared
from modtf.routing.measuring.estimates import ADJUSTED
from modtf.routing.measuring.results import ALL_TOKENS
from modtf.routing.names import Names
from modtf.routing.report.tables import upper_limit
from modtf.routing.routing import Routing

FIRST = ("vocabulary_specialisation", "repetition", "coactivation", "domain_specialisation")  # to be quoted
DEAD, VIOLATION = "dead_experts", "max_violation"  # measures of the analysis of the load
SCALE = "adjusted mutual information"
EVEN = 0.95  # effective share of experts above which the load is even
LITTLE = 0.01  # adjusted mutual information below which a verdict says so


def held(routing: Routing, file: str) -> str:
    """Return what a file holds: its layers, experts, tokens, documents and labels."""
    layers, _, experts = routing.activations.shape
    found = routing.activations
    unit = "choice" if isinstance(found, Counted) and found.top_k is None else "token"
    parts = [
        plural(layers, "layer"),
        plural(experts, "expert") + " per layer",
        plural(routing.num_tokens, unit),
    ]
    if not routing.has_tokens:
        parts.append(plural(found.shape[1], "document"))
    elif routing.documents is not None:
        parts.append(plural(len(np.unique(routing.documents)), "document"))
    if routing.labels is not None:
        numbers = np.unique(routing.labels).tolist()
        names = [routing.names.label(one) for one in numbers[:6]] + ["..."] * (len(numbers) > 6)
        listed = f" ({', '.join(names)})" if routing.names.labels is not None else ""
        parts.append(f"{plural(len(numbers), 'label')}{listed}")
    return f"{file} holds the routing of {', '.join(parts)}."


def findings(layers: Sequence[LayerMeasures], names: Names, analysed: Mapping[str, Analysed]) -> list[str]:
    """Return the verdict: a sentence on labels, one on the load, and one of the most telling analysis."""
    known = [layer for layer in layers if ADJUSTED in layer.views[-1].values]
    found = [_information(known, names)] if known else []
    if not known and len(layers[0].labels) == 1 and layers[0].label_names != (ALL_TOKENS,):
        found = ["All tokens have one label, so information about labels cannot be measured."]
    found.append(load_sentence(layers, names, analysed["load"].table if "load" in analysed else None))
    quoted = [
        f"{ANALYSES[name].title}: {lower_first(analysed[name].sentences[0])}"
        for name in FIRST
        if name in analysed
    ]
    return found + quoted[:1]


def _information(layers: Sequence[LayerMeasures], names: Names) -> str:
    """Return which layer carries most information about labels, and which layers carry some."""
    views = [layer.views[-1] for layer in layers]
    table = pd.DataFrame(vars(view.values[ADJUSTED]) for view in views).assign(
        layer=[layer.layer for layer in layers],
        measure=ADJUSTED,
        item="",
        draws=[len(view.largest_excess_by_chance) for view in views],
        limit=corrected_limits([view.adjusted_by_chance for view in views]),
    )
    if table["value"].isna().all() or table["chance_high"].isna().all():
        why = "experts carry as much about permuted labels"
        if table["draws"].max() < 2:
            why = "one permutation is too few" if table["draws"].any() else "no permutations were drawn"
        return f"The {SCALE} of experts and labels is unknown, because {why}."
    above, one = above_chance(table, ADJUSTED), len(table) == 1
    eligible = table[table["layer"].isin(above)] if above else table  # a larger value may lie within chance
    best = table.loc[eligible["value"].astype(float).idxmax()]
    where = names.layer(int(best["layer"]))
    digits = 3 if best["value"] >= LITTLE else 4
    size = f"{best['value']:.{digits}f}" if best["value"] > 0 else "0"
    value = f"{SCALE} {{}}{size} of 1{{}}, chance below "
    value += upper_limit(best["chance_high"], digits)
    most = value.format("", "") if one else value.format("at most ", f", in layer {where}")
    if not above:
        among = "" if one else f", corrected for {len(table)} layers"
        return f"No layer carries information about labels beyond chance{among}: {most}."
    if best["value"] < LITTLE:
        subject = f"Layer {where} carries" if one else "Layers carry"
        return f"{subject} little information about labels: {most}."
    best_of_all = value.format("", "")
    if len(above) == 1:
        only = "Layer" if one else "Only layer"
        return f"{only} {where} carries information about labels: {best_of_all}."
    text = f"Layer {where} carries most information about labels: {best_of_all}"
    every = "both layers" if len(table) == 2 else f"all {len(table)} layers"
    if len(above) < len(table):
        every = f"{layers_text(above, names)} of {len(table)}"
    return f"{text}; {every} are beyond chance."


def load_sentence(layers: Sequence[LayerMeasures], names: Names, load: pd.DataFrame | None = None) -> str:
    """Return where the load is most uneven, and which experts are never used.

    `load` is the table of the analysis of the load. Where it has a chance level, experts count as dead if a
    balanced router would have used more of them. Without it, the sentence only says what was not chosen.
    """
    known = None if load is None else load[(load["item"] == "") & load["chance_high"].notna()]
    known = None if known is None or known.empty else known
    return f"{_uneven(layers, names, known)}; {_unused(layers, names, known)}."


def _unused(layers: Sequence[LayerMeasures], names: Names, known: pd.DataFrame | None) -> str:
    numbers = {layer.layer: int((layer.views[-1].use == 0).sum()) for layer in layers}
    some = [layer for layer, number in numbers.items() if number]
    if not some:
        return "no expert is dead (never used)"
    if known is not None:
        beyond = above_chance(known, DEAD)
        some = [layer for layer in some if layer in beyond]
    if not some:
        return "no layer has more dead experts than a balanced router would have"
    total, where = sum(numbers[layer] for layer in some), layers_text(some, names)
    text = f"{plural(total, 'expert')} of {where}"
    if known is None:
        counts = layers[0].label_counts
        tokens = "no token" if counts is None else f"none of these {plural(int(counts.sum()), 'token')}"
        return f"{text} got {tokens}"
    verb = "is" if total == 1 else "are"
    chance = known[known["measure"] == DEAD]
    band = number_range(chance["chance_low"].min(), chance["chance_high"].max(), is_count=True)
    return f"{text} {verb} dead (never used; chance {band}{' per layer' * (len(some) > 1)})"


def _uneven(layers: Sequence[LayerMeasures], names: Names, known: pd.DataFrame | None) -> str:
    if known is not None:
        part, above = known[known["measure"] == VIOLATION], above_chance(known, VIOLATION)
        part = part[part["layer"].isin(above or part["layer"])]
        busiest = part.loc[part["value"].idxmax()]
        where = names.layer(int(busiest["layer"]))
        most = f"{number(busiest['value'] + 1)} times the mean load"
        chance = f"chance below {upper_limit(busiest['chance_high'] + 1, 2)}"
        if above:
            return f"The load is most uneven in layer {where}: its busiest expert has {most}, {chance}"
        among = f", corrected for {len(part)} layers" if len(part) > 1 else ""
        text = f"No expert is busier than a balanced router's would be{among}: the busiest"
        return f"{text}, in layer {where}, has {most}, {chance}"
    use = [layer.views[-1].use for layer in layers]
    effective = [float(np.exp(entropy(one))) for one in use]
    shares = [one / some.size for one, some in zip(effective, use, strict=True)]
    least = int(np.argmin(shares))
    text = "The load is even; least" if shares[least] > EVEN else "The load is most uneven"
    used = f"{effective[least]:.1f} of {use[least].size}"
    return f"{text} in layer {names.layer(layers[least].layer)}: as if {used} experts were used evenly"


def comparison_findings(compared: Iterable[Compared], names: Names) -> list[str]:
    """Return for each run how it differs from the first in information, load and choices."""
    runs: dict[str, list[Compared]] = {}
    for one in compared:
        runs.setdefault(one.run, []).append(one)
    return [text for run, layers in runs.items() for text in _differences(run, layers, names)]


def _differences(run: str, layers: Sequence[Compared], names: Names) -> Iterator[str]:
    first = layers[0].against
    adjusted = [one.differences["hard"].get(ADJUSTED, Estimate(np.nan)).value for one in layers]
    measure = "effective_experts" if np.isnan(adjusted).all() else ADJUSTED  # NaN without permutations
    values = [one.differences["hard"].get(measure, Estimate(np.nan)) for one in layers]
    wider = widened(len(values), layers[0].num_groups, layers[0].confidence)
    sides = []
    for word, sign in (("higher", 1), ("lower", -1)):
        beyond = [sign * one.value > wider * (one.high - one.low) / 2 for one in values]
        if any(beyond):
            numbers = [layer.layer for layer, one in zip(layers, beyond, strict=True) if one]
            sides.append(f"{word} in {layers_text(numbers, names)}")
    title = SCALE if measure == ADJUSTED else measure.replace("_", " ")
    place = max(range(len(values)), key=lambda place: np.nan_to_num(abs(values[place].value)))
    largest, where = values[place], names.layer(layers[place].layer)
    half = wider * (largest.high - largest.low) / 2  # the largest of many layers has a wider interval
    ends = f"{largest.value:+.3f} [{largest.value - half:+.3f}, {largest.value + half:+.3f}]"
    text = " and ".join(sides) or "not shown to differ in any layer"
    if np.isnan([one.high for one in values]).all():
        text, ends = "without intervals, which need two groups of documents", f"{largest.value:+.3f}"
    text += f"; the largest difference is {ends}, in layer {where}"
    yield f"{run} compared with {first}: {title} is {text}."
    shared = [one.shared for one in layers]
    least = names.layer(layers[int(np.argmin([one.value for one in shared]))].layer)
    chance = number_range(min(one.chance for one in shared), max(one.chance for one in shared))
    both = number_range(min(one.value for one in shared), max(one.value for one in shared))
    most = f", least in layer {least}" if len(layers) > 1 else ""
    text = f"share {both} of all choices{most}, after matching their experts"
    yield f"{run} and {first} {text}; chance {chance}."
