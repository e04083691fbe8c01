"""Draw docs/images/corruptions.png and the figures of docs/corruptions.md; print its tables.

    python docs/scripts/draw_corruptions.py

corruptions.png shows digits under every corruption, and under compositions in both orders. The rest comes
from docs/study/corruptions.zip."""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import modtf
from modtf.analysis.figures.base import write_pngs
from modtf.datasets.streaming import stream
from modtf.experiments.corruptions.accuracy import by_parts, compared, differences, table_1, trainings
from modtf.families.orders import CORRUPTIONS, name_of
from modtf.task import Task

DOCS = Path(__file__).parents[1]
IMAGES = 4
FIGURES = ("corruptions_accuracy", "corruptions_invariance")
LEARNED = "contrastive (trainer.strength=0.01)"
COMPOSED = ("CO_GB", "GB_CO", "GB_IM", "IM_GB", "R90_SW", "SW_R90", "IM_SW_CO")


def read() -> modtf.Study:
    """Return all trained models."""
    return modtf.Study.read(DOCS / "study" / "corruptions.zip")


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    parts = study.by_kind
    accuracies = [f"{table_1(part)}\n\n{differences(part)}" for part in parts]
    return {"corruptions.md": [*accuracies, *map(trainings, parts), rates(parts[0])]}


def rates(study: modtf.Study) -> str:
    """Compare erm at two more learning rates, with its own steps, with contrastive at a rate of 0.03."""
    archive = DOCS / "study" / "corruptions_rates.zip"
    protocols = sorted(modtf.load_results(archive)["protocol"].unique())
    faster = [modtf.Study.read(archive, protocols=[protocol]) for protocol in protocols]
    named = {
        f"erm, rate {protocol.partition('@')[2]}": part
        for protocol, part in zip(protocols, faster, strict=True)
    }
    rows = [by_parts(part).assign(variant=name) for name, part in named.items()]
    return compared(
        pd.concat([by_parts(study).astype({"variant": str}), *rows]), list(named), LEARNED, study.level
    )


def draw(study: modtf.Study, folder: Path = DOCS / "images") -> list[Path]:
    """Write the pictures of the contrast that was run."""
    return write_pngs({name: study.by_kind[0].figure(name)[0] for name in FIGURES}, folder)


def samples(out: Path, dataset: str) -> None:
    """Write the contact sheet."""
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
    parser.add_argument("--out", type=Path, default=DOCS / "images" / "corruptions.png")
    parser.add_argument("--dataset", default="digits")
    given = parser.parse_args()
    samples(given.out, given.dataset)
    trained = read()
    draw(trained)
    print("\n\n".join(texts(trained)["corruptions.md"]))
