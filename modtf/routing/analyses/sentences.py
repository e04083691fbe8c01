"""Parts of sentences about layers, for what analyses found."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from modtf.metrics.distributions import Array
from modtf.routing.measuring.estimates import FEWEST, Excess
from modtf.routing.measuring.results import ROUNDING
from modtf.routing.names import Names


def spread_of(table: pd.DataFrame, measure: str) -> str:
    """Return the range of a measure over layers, and that of its chance level."""
    part = table[(table["measure"] == measure) & (table["item"] == "")]
    chance = part[["chance_low", "chance_high"]].dropna()
    text = number_range(part["value"].min(), part["value"].max())
    if chance.empty:
        return text
    return f"{text}, chance {number_range(chance['chance_low'].min(), chance['chance_high'].max())}"


def number_range(low: float, high: float, is_count: bool = False) -> str:
    """Return "0.02 to 0.37", or one number if both look the same; "65 to 89" for counts."""
    ends = [f"{one:z.0f}" if is_count else number(one) for one in (low, high)]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def number(value: float) -> str:
    """Return a number with two or three digits."""
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2 if abs(value) >= 0.0995 else 3
    return f"{value:z.{digits}f}" if value else "0"


def layers_text(layers: list[int], names: Names) -> str:
    """Return "layer 3", "layers 12 to 28" or "layers 1, 4 and 9"; names of layers instead of numbers."""
    words = [names.layer(layer) for layer in layers]
    if len(words) == 1:
        return f"layer {words[0]}"
    if len(words) > 2 and layers == list(range(layers[0], layers[-1] + 1)):
        return f"layers {words[0]} to {words[-1]}"
    if len(words) > 6:
        return f"{len(words)} layers from {words[0]} to {words[-1]}"
    return f"layers {', '.join(words[:-1])} and {words[-1]}"


def above_chance(table: pd.DataFrame, measure: str) -> list[int]:
    """Return the layers in which a measure is above its chance band.

    Its upper limit is corrected for the number of layers, see `corrected_limit`. A column `draws` has the
    number of draws of the chance level. A column `limit` has limits that are corrected already, see
    `corrected_limits`; NaN if they are unknown.
    """
    part = table[(table["measure"] == measure) & (table["item"] == "") & table["chance_high"].notna()]
    low, middle, high = (part[name].astype(float) for name in ("chance_low", "chance", "chance_high"))
    draws = float(part["draws"].min()) if "draws" in part else math.inf
    limit = corrected_limit(low, middle, high, len(part), draws)
    if "limit" in part:
        limit = part["limit"].fillna(limit)
    above = part["value"] > limit + ROUNDING * limit.abs().clip(lower=1.0)
    return part[above]["layer"].astype(int).tolist()


def corrected_limit(low: Any, middle: Any, high: Any, number: int, draws: float) -> Any:
    """Return the upper limits of 95% bands by chance, corrected for their number; shapes as given.

    The upper part of a band is widened, see `widened`, or half the band if that is more: the largest of 39
    draws alone varies too much.
    """
    return middle + widened(number, draws) * np.maximum(high - middle, (high - low) / 2)


def corrected_limits(drawn: Sequence[Array]) -> Array:
    """Return the value of each layer above which it is beyond chance, corrected for the number of layers.

    In 97.5% of draws no layer is above its limit, whatever the shape of the distribution, and although layers
    depend on each other. NaN for a layer with fewer than 39 draws. `drawn` has the values of each layer
    `[draws]`; draw i is the same permutation in all layers.
    """
    limits = np.full(len(drawn), np.nan)
    known = [place for place, values in enumerate(drawn) if len(values) >= FEWEST]
    if not known:
        return limits
    draws = np.stack([drawn[place] for place in known], axis=1)  # [draws, layers]
    excess = Excess(draws)
    limits[known] = excess.share_at(float(np.quantile(excess.largest(draws), 0.975, method="weibull")))
    return limits


def percent(value: float) -> str:
    """Return "37%" or "0.4%"."""
    return f"{value:.1%}" if abs(value) < 0.0995 else f"{value:.0%}"


def widened(number: int, draws: float = math.inf, confidence: float = 0.95) -> float:
    """Return the factor by which intervals of this confidence grow if there are so many (Bonferroni).

    Their tails are those of Student's t for a number of draws, normal by default.
    """
    from scipy.special import stdtrit  # slow to import

    tail = (1.0 - confidence) / 2
    return float(np.divide(*stdtrit(draws - 1, [tail / max(number, 1), tail])))


def beyond_chance(table: pd.DataFrame, measure: str, what: str, names: Names, title: str = "") -> str:
    """Return a sentence on the layers above chance, such as "Layers 12 to 28 <what>: ... up to 0.37, ...".

    `title` is what to call the measure, with its verb: "the share of an id's tokens is"; by default its name.
    """
    part = table[(table["measure"] == measure) & (table["item"] == "")].astype({"value": float})
    subject = title or f"the {measure.replace('_', ' ')} of layers is"
    subject, title = subject[0].upper() + subject[1:], title or measure.replace("_", " ")
    if part["value"].isna().all():
        return f"{subject} unknown, because no tokens count for it."
    if part["chance_high"].isna().all():
        return f"{subject} {spread_of(table, measure)}."
    layers = above_chance(table, measure)
    verb, _, rest = what.partition(" ")
    if len(layers) < 2:
        verb = f"{verb[:-1]}ies" if verb.endswith("y") else f"{verb}s"
    if not layers:
        among = f", corrected for {len(part)} layers" if len(part) > 1 else ""
        did = " ".join(filter(None, [verb, rest]))
        return f"No layer {did} beyond chance{among}: {title} {spread_of(table, measure)}."
    words = layers_text(layers, names)
    words = "All layers" if len(layers) == len(part) > 1 else words[0].upper() + words[1:]
    part = part[part["layer"].isin(layers)]
    chance = number_range(part["chance_low"].min(), part["chance_high"].max())
    return f"{words} {verb} {rest}: {title} up to {number(part['value'].max())}, chance {chance}."


def lower_first(sentence: str) -> str:
    """Return a sentence that begins with a common word as the end of another."""
    common = sentence.startswith(("A ", "All", "Experts", "Layer", "No", "The", "Within"))
    return sentence[0].lower() + sentence[1:] if common else sentence
