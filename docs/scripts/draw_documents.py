"""Draw the effect of documents on the chance level, images/documents.png.

    python docs/scripts/draw_documents.py

The router has 16 experts, top-2, and no information about labels. Every document of 40 tokens has its own
random preference and one of eight random labels. The adjusted mutual information should be around 0.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sources import IMAGES, save

import modtf

EXPERTS, LABELS, LENGTH, ROUTERS = 16, 8, 40, 40
WAYS = {"tokens taken as independent": "#D55E00", "documents given": "#0072B2"}


def information(num_documents: int, seed: int) -> list[float]:
    """Return the adjusted mutual information by either way."""
    generator = np.random.default_rng(seed)
    document = np.repeat(np.arange(num_documents), LENGTH)
    label = generator.permutation(np.arange(num_documents) % LABELS)[document]
    logits = generator.normal(size=(num_documents, EXPERTS))[document]
    logits = logits + generator.normal(size=logits.shape)
    found = []
    for documents in (np.arange(len(document)), document):
        (layer,) = modtf.measure_activations(
            logits, label, documents=documents, from_logits=True, top_k=2, groups=["specialisation"],
            permutations=40, num_groups=2,
        )  # fmt: skip
        found.append(layer.hard.values["adjusted_mutual_information"].value)
    return found


def draw(path: Path) -> None:
    """Write the figure."""
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    axes = figure.subplots()
    sizes = (16, 32, 64, 200)
    for place, num_documents in enumerate(sizes):
        values = np.array([information(num_documents, seed) for seed in range(ROUTERS)])
        for way, (name, colour) in enumerate(WAYS.items()):
            x = place + 0.3 * way - 0.15 + np.linspace(-0.06, 0.06, ROUTERS)
            axes.plot(x, values[:, way], ".", color=colour, alpha=0.6, label=None if place else name)
    axes.axhline(0, color="#999999", lw=0.8)
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set(xlabel="documents of eight labels", ylabel="adjusted mutual information")
    axes.set_title(f"{ROUTERS} routers without information about labels", loc="left", size=10)
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)


if __name__ == "__main__":
    draw(IMAGES / "documents.png")
