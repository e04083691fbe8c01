"""Draw docs/images/claims.png, the README's picture, from docs/data/routing_claims.csv.

python docs/scripts/draw_claims.py
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from sources import DOCS, IMAGES, save

SHOWN = {
    "moe_beyond_cache": "DeepSeek-V2-Lite: a predictor fills the cache",
    "olmoe_saturation": "OLMoE: final choices after 1% of training",
    "signatures": "OLMoE: routing tells four tasks apart",
    "srp_qwen3": "Qwen3: neighbours need few experts",
    "mixtral_any": "Mixtral: neighbours share an expert",
    "srp_deepseek_moe": "DeepSeekMoE: neighbours need few experts",
    "moe_beyond_accuracy": "DeepSeek-V2-Lite: experts can be predicted",
    "srp_llama_moe": "LLaMA-MoE: neighbours need few experts",
}
COLOURS = {"survives": "#1b7837", "partly survives": "#b8860b", "does not survive": "#b2182b"}


def draw(path: Path) -> None:
    """Write the picture."""
    rows = pd.read_csv(DOCS / "data" / "routing_claims.csv", comment="#", index_col="claim")
    figure = Figure(figsize=(9.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(SHOWN):
        row = rows.loc[name]
        colour = COLOURS[row["verdict"]]
        axes.plot([100 * row["chance"], 100 * row["claimed"]], [place, place], color=colour, lw=2, zorder=1)
        axes.plot(100 * row["chance"], place, "|", color="#555555", ms=14, mew=2.5)
        axes.plot(100 * row["claimed"], place, "o", color=colour, ms=8)
        share = max(1 - row["chance"] / row["claimed"], 0)
        axes.text(113, place, f"{share:.0%}", color=colour, va="center", ha="right")
        axes.text(115, place, row["verdict"], color=colour, va="center", size=9)
    axes.text(113, -0.9, "not chance", ha="right", size=9)
    axes.plot([], [], "|", color="#555555", ms=12, mew=2.5, label="a router that knows nothing")
    axes.plot([], [], "o", color="#555555", ms=7, label="claimed")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.14), ncols=2, fontsize=9)
    axes.set_yticks(range(len(SHOWN)), SHOWN.values())
    axes.set(xlim=(0, 142), ylim=(len(SHOWN) - 0.5, -0.5), xlabel="published score, %")
    axes.set_xticks(range(0, 101, 20))
    axes.spines[["top", "right"]].set_visible(False)
    save(figure, path)


if __name__ == "__main__":
    draw(IMAGES / "claims.png")
