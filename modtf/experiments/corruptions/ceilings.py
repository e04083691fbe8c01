"""The accuracy of networks that are trained on clean images only, on these."""

from dataclasses import replace

import pandas as pd

from modtf.analysis.trained import TrainedModels
from modtf.experiments.corruptions.accuracy import by_condition, dataset_of, methods
from modtf.experiments.corruptions.orders import name_of
from modtf.tasks.cell import Cell

#: as in the released figures, at the published width
CEILING = {"emnist": 89.0, "cifar10": 92.0}


def clean_networks(study: TrainedModels) -> pd.DataFrame:
    """Return the rows of `by_condition` of networks of clean images, the first stage of modular, on these."""
    rows = methods(by_condition(study), study)
    return rows[(rows["variant"] == "modular") & (rows["condition"] == name_of(()))]


def published_ceiling(study: TrainedModels) -> float:
    """Return the published accuracy of a network of clean images on them, in %.

    NaN unless all models have the published width, and the published training but for the learning rate."""
    known = bool(study.cells) and all(_is_published(cell.definition) for cell in study.cells)
    return CEILING.get(dataset_of(study.results), float("nan")) if known else float("nan")


def _is_published(cell: Cell) -> bool:
    preset, training = cell.task.family.published(cell.task), cell.protocol.training
    published = replace(preset.protocol.training, learning_rate=training.learning_rate)
    return (cell.width, training) == (preset.width, published)


def ceiling(study: TrainedModels) -> float:
    """Return the mean accuracy of our networks of clean images on them, in %; without any the published one,
    or NaN."""
    clean = clean_networks(study)
    return float(clean["accuracy"].mean()) if len(clean) else published_ceiling(study)
