"""Make the tables and figures of docs/corruptions.md.

python docs/scripts/draw_corruptions.py   # docs/images/corruptions.png: digits under every corruption"""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sources import IMAGES, RESULTS, archive, write_pngs

import modtf
from modtf.datasets.streaming import stream
from modtf.experiments.corruptions.accuracy import by_parts, compared, differences, table_1, trainings
from modtf.experiments.corruptions.conditions import CORRUPTIONS, name_of
from modtf.tasks.task import Task

read = partial(archive, "corruptions")
SHOWN = 4
LEARNED = "contrastive (trainer.strength=0.01)"
COMPOSED = ("CO_GB", "GB_CO", "GB_IM", "IM_GB", "R90_SW", "SW_R90", "IM_SW_CO")
NOT_LEARNED = ("erm", "contrastive", "routed (site=4)")  # at most 80% under one corruption, with fewer steps


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    parts = study.by_kind
    accuracies = [f"{table_1(part)}\n\n{differences(part)}" for part in parts]
    visible = archive("corruptions_told")
    tables = [*map(trainings, (*parts, visible)), rates(parts[0])]
    return {"corruptions.md": [*accuracies, *tables, table_1(visible), *against(parts[0], visible)]}


def faster() -> dict[str, pd.DataFrame]:
    """Return the accuracies of erm at two more learning rates, with its own steps, by name."""
    path = RESULTS / "corruptions_rates.zip"
    protocols = sorted(modtf.load_results(path)["protocol"].unique())
    named = {f"erm, rate {protocol.partition('@')[2]}": protocol for protocol in protocols}
    read = {name: modtf.Study.read(path, protocols=[protocol]) for name, protocol in named.items()}
    return {name: by_parts(part).assign(variant=name) for name, part in read.items()}


def rates(study: modtf.Study) -> str:
    """Compare erm at two more learning rates with contrastive at a rate of 0.03."""
    named = faster()
    rows = pd.concat([by_parts(study).astype({"variant": str}), *named.values()])
    return compared(rows, list(named), LEARNED, study.level)


def against(study: modtf.Study, visible: modtf.Study) -> list[str]:
    """Compare the methods that receive the corruption with erm at their rate, and with modular."""
    rows = [by_parts(part).astype({"variant": str}) for part in (study, visible)]
    rows = pd.concat([*rows, *faster().values()])
    knows = [*visible.variants, *(name for name in study.variants if name.startswith("modular"))]
    return [
        compared(rows, knows, "erm, rate 0.1", study.level),
        compared(rows, visible.variants, knows[-1], study.level),
    ]


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the methods that have learned, on the contrast that was run."""
    part = study.by_kind[0]
    learned = part.part(variant=[name for name in part.variants if name not in NOT_LEARNED])
    return write_pngs({"corruptions_accuracy": learned.figure("corruptions_accuracy")[0]}, folder)


def samples(path: Path) -> None:
    """Write the contact sheet."""
    task = Task("corruptions", dataset="digits")
    columns = ["id", *(name_of((name,)) for name in CORRUPTIONS), *(name.lower() for name in COMPOSED)]
    figure = Figure(figsize=(0.95 * len(columns), 0.95 * SHOWN + 0.3), dpi=100)
    axes = figure.subplots(SHOWN, len(columns), gridspec_kw={"wspace": 0.05, "hspace": 0.05})
    for column, name in enumerate(columns):
        features, _ = next(iter(stream(task, SHOWN, "test", condition=name)))
        for row, image in enumerate(np.asarray(features["inputs"])[:, 0]):
            axes[row, column].imshow(image, interpolation="nearest")
            axes[row, column].set(xticks=[], yticks=[])
        axes[0, column].set_title(name.upper().replace("_", " "), size=8)
    figure.savefig(path, bbox_inches="tight")


if __name__ == "__main__":
    samples(IMAGES / "corruptions.png")
