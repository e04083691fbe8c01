"""Draws docs/images/corruptions.png: digits under every corruption, and under compositions in both orders."""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from modtf.datasets.streaming import stream
from modtf.families.orders import CORRUPTIONS, name_of
from modtf.task import Task

IMAGES = 4
COMPOSED = ("CO_GB", "GB_CO", "GB_IM", "IM_GB", "R90_SW", "SW_R90", "IM_SW_CO")


def main(out: Path, dataset: str) -> None:
    task = Task("corruptions", dataset=dataset)
    columns = ["id", *(name_of((name,)) for name in CORRUPTIONS), *(name.lower() for name in COMPOSED)]
    figure = Figure(figsize=(0.95 * len(columns), 0.95 * IMAGES + 0.3), dpi=100)
    axes = figure.subplots(IMAGES, len(columns), gridspec_kw={"wspace": 0.05, "hspace": 0.05})
    for column, name in enumerate(columns):
        features, _ = next(iter(stream(task, IMAGES, "test", condition=name)))
        for row, image in enumerate(np.asarray(features["inputs"])[:, 0]):
            axes[row, column].imshow(image, interpolation="nearest")
            axes[row, column].set(xticks=[], yticks=[])
        axes[0, column].set_title(name.upper().replace("_", " "), size=8)
    figure.savefig(out, bbox_inches="tight")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images" / "corruptions.png")
    parser.add_argument("--dataset", default="digits")
    given = parser.parse_args()
    main(given.out, given.dataset)
