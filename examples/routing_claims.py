"""Compare published claims about expert specialisation with routers that know nothing.

A router that knows nothing of the text is simulated at the size of each claim (`routing_chance.py`). Its
score on the same measure is chance, and a rule gives the verdict. See docs/routing_claims.md.

Example:
    python examples/routing_claims.py --image=routing_claims.png  # all claims: half a minute of CPU
    python examples/routing_claims.py --claim=mixtral_any --format=csv
"""

import argparse
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from routing_chance import (
    accuracy,
    cached,
    committee,
    guessed,
    kept,
    largest,
    rate_change,
    repeats,
    segment_f1,
)  # fmt: skip

from modtf.pages.text import markdown_table


@dataclass(frozen=True)
class Claim:
    """A published number and the router that knows nothing.

    Attributes:
        source, what, value: an arXiv number, the measure in words, the published number.
        draw: simulates one router and returns its score.
        sign: 1 if the claim is that the number is large, -1 if small, 0 if it is that of the router.
        missing: what the verdict would depend on and the source does not state.
        draws: the number of simulated routers.
    """

    source: str
    what: str
    value: float
    draw: Callable[[np.random.Generator], float]
    sign: int = 1
    missing: str = ""
    draws: int = 200


class Chance(NamedTuple):
    """The mean and the 95% band of simulated routers."""

    mean: float
    low: float
    high: float


SRP = "segment routing best performance, "
# Numbers of routers follow the sources: experts, top-k, loads where they are stated, prompts and tokens.
CLAIMS = {
    "mixtral_first": Claim("2401.04088", "same first choice as the token before, ArXiv, layer 15", 0.279,
                           partial(repeats, experts=8, k=2, first=1, spread=0.13)),
    "mixtral_any": Claim("2401.04088", "a choice shared with the token before, ArXiv, layer 15", 0.623,
                         partial(repeats, experts=8, k=2, first=2, spread=0.13)),
    "olmoe_saturation": Claim("2409.02060", "choices of the final router after 1% of training, up to", 0.60,
                              partial(kept, experts=64, k=8, spread=0.55)),
    "srp_qwen3": Claim("2505.16056", SRP + "Qwen3", 0.5414,
                       partial(segment_f1, mean=1 / 16, deviation=0.0319)),
    "srp_olmoe": Claim("2505.16056", SRP + "OLMoE", 0.5091,
                       partial(segment_f1, mean=1 / 8, deviation=0.0679)),
    "srp_mixtral": Claim("2505.16056", SRP + "Mixtral", 0.4936,
                         partial(segment_f1, mean=1 / 4, deviation=0.0270)),
    "srp_llama_moe": Claim("2505.16056", SRP + "LLaMA-MoE-v1", 0.4529,
                           partial(segment_f1, mean=1 / 4, deviation=0.0266)),
    "srp_deepseek_moe": Claim("2505.16056", SRP + "DeepSeekMoE", 0.3694,
                              partial(segment_f1, mean=3 / 32, deviation=0.0203)),
    "srp_qwen2": Claim("2505.16056", SRP + "Qwen2", 0.3674,
                       partial(segment_f1, mean=1 / 8, deviation=0.0674)),
    "committee_mass": Claim("2601.03425", "routing mass of at most 5 of 64 experts, even router", 0.705,
                            partial(largest, experts=64, size=5, prompts=1_560)),
    "committee_mass_loads": Claim("2601.03425", "the same, router with the loads of another model", 0.705,
                                  partial(largest, experts=64, size=5, prompts=1_560, gini=0.9465),
                                  missing="the Gini coefficient of this model's loads"),
    "committee_even": Claim("2601.03425", "overlap of the top 8 experts of nine domains, even router", 0.8670,
                            partial(committee, experts=128, size=8, gini=0.0, domains=9, prompts=1_560,
                                    layers=48)),
    "committee_loads": Claim("2601.03425", "the same, router with the same loads in all domains", 0.8670,
                             partial(committee, experts=128, size=8, gini=0.9465, domains=9, prompts=1_560,
                                     layers=48),
                             sign=0, missing="how much the routing of prompts varies within a domain"),
    "moe_beyond_accuracy": Claim("2508.17137", "accuracy of predicted experts", 0.975,
                                 partial(accuracy, experts=64, k=6), draws=1),
    "moe_beyond_f1": Claim("2508.17137", "F1 of the same prediction", 0.866,
                           partial(kept, experts=64, k=6, spread=0.25)),
    "moe_beyond_cache": Claim("2508.17137", "hit rate of a cache of 10% of the experts", 0.72,
                              partial(cached, experts=64, k=6, size=6)),
    "signatures": Claim("2603.11114", "accuracy of four tasks told apart by routing, 80 prompts", 0.925,
                        partial(guessed, labels=4, samples=80)),
    "safety": Claim("2605.24270", "restricted answers that suppressing 5 experts removes, 100 prompts", 0.10,
                    partial(rate_change, share=0.24, prompts=100),
                    missing="the same suppression of five random experts", draws=1_000),
}  # fmt: skip


def chance(name: str, draws: int | None = None) -> Chance:
    """Return what routers that know nothing score on the measure of a claim; the seed follows its name."""
    claim = CLAIMS[name]
    random = np.random.default_rng(zlib.crc32(name.encode()))
    scores = [claim.draw(random) for _ in range(draws or claim.draws)]
    low, high = np.percentile(scores, [2.5, 97.5])
    return Chance(float(np.mean(scores)), float(low), float(high))


def verdict(claim: Claim, level: Chance) -> str:
    """Return the verdict by the rule of the page.

    A claim that a number is large (or small) survives if it is beyond the band of chance, and the distance
    to chance is more than half of the larger of the two. Within the band it does not survive.
    """
    if claim.missing:
        return "cannot be told"
    if claim.sign:
        edge = level.high if claim.sign > 0 else level.low
        if claim.sign * (claim.value - edge) <= 0:
            return "does not survive"
        distance = abs(claim.value - level.mean) / max(claim.value, level.mean)
        return "survives" if distance > 0.5 else "partly survives"
    if level.low <= claim.value <= level.high:
        return "survives"
    return "partly survives" if abs(claim.value - level.mean) < 0.5 * level.mean else "does not survive"


def corrected(value: float, level: float) -> float:
    """Return where a share stands between chance, 0, and all, 1, or none, -1."""
    return (value - level) / (1 - level if value > level else level)


def table(names: Sequence[str]) -> pd.DataFrame:
    """Return a row for every claim: its number, chance with its band, the corrected number, the verdict.

    The corrected number is 0 for chance, 1 for the largest possible share, and -1 for none.
    """
    rows = []
    for name in names:
        claim, level = CLAIMS[name], chance(name)
        rows.append({
            "claim": name, "source": claim.source, "measure": claim.what, "claimed": claim.value,
            "chance": level.mean, "low": level.low, "high": level.high,
            "corrected": corrected(claim.value, level.mean), "verdict": verdict(claim, level),
        })  # fmt: skip
    return pd.DataFrame(rows)


def markdown(found: pd.DataFrame) -> str:
    """Return the table of the page."""
    shown = found.assign(
        **{name: found[name].map("{:.3f}".format) for name in ("claimed", "corrected")},
        chance=[f"{row.chance:.3f} ({row.low:.3f} to {row.high:.3f})" for row in found.itertuples()],
    ).drop(columns=["low", "high"])
    return markdown_table(list(shown), shown.to_numpy().tolist(), left=3)


def draw(found: pd.DataFrame, path: str) -> None:
    """Draw the claimed and the corrected numbers, and the 95% band of routers that know nothing."""
    import matplotlib.pyplot as plt

    colours = {"survives": "#1b7837", "partly survives": "#d8a200", "does not survive": "#b2182b"}
    figure, axes = plt.subplots(figsize=(9, 0.27 * len(found) + 1.2), constrained_layout=True)
    for place, row in enumerate(found.itertuples()):
        colour = colours.get(row.verdict, "0.45")
        axes.plot([row.low, row.high], [place, place], color="0.85", linewidth=9, solid_capstyle="butt")
        axes.plot(row.chance, place, "|", color="0.3", markersize=9)
        axes.plot([row.corrected, row.claimed], [place, place], color=colour, linewidth=0.8)
        axes.plot(row.claimed, place, "o", color=colour, markerfacecolor="white")
        axes.plot(row.corrected, place, "o", color=colour)
    axes.set_yticks(range(len(found)), found.claim + "  " + found.source, fontsize=8)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("share; open: claimed, filled: corrected (0 is chance), grey: routers that know nothing")
    for name, colour in {**colours, "cannot be told": "0.45"}.items():
        axes.plot([], [], "o", color=colour, label=name)
    axes.legend(loc="lower left", fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Print the table, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--claim", default="", help="names, separated by commas; all without it")
    parser.add_argument("--format", choices=["markdown", "csv"], default="markdown")
    parser.add_argument("--image", help="a file for the picture")
    options = parser.parse_args()
    names = [name for name in options.claim.split(",") if name] or list(CLAIMS)
    if unknown := sorted(set(names) - set(CLAIMS)):
        parser.error(f"--claim={','.join(unknown)}: expected names among {', '.join(CLAIMS)}.")
    if options.image and not Path(options.image).parent.is_dir():
        parser.error(f"--image={options.image}: the folder does not exist.")
    found = table(names)
    as_csv = found.to_csv(index=False, float_format="%.3f").rstrip()
    print(as_csv if options.format == "csv" else markdown(found))
    if options.image:
        draw(found, options.image)


if __name__ == "__main__":
    main()
