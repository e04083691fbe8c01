"""Accuracy by the number of corruptions: Table 1 of the paper from our results, and ceilings.

A ceiling is the accuracy of networks that are trained on clean images only, on these.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from modtf.analysis.intervals import holm, intervals, summarise
from modtf.analysis.labels import parse_options
from modtf.analysis.learned import has_learned
from modtf.analysis.pairs import smallest_gain, two_sided
from modtf.analysis.trained import TrainedModels
from modtf.base.checks import check_choice
from modtf.experiments.corruptions import (
    COMPOSED,
    ELEMENTAL,
    FORMULAS,
    PAPER,
    STAGE_RATES,
    invariance_measure,
)
from modtf.experiments.corruptions.conditions import DATASETS, LONGEST, name_of, orders
from modtf.pages.text import listing, markdown_table, text_table
from modtf.results.schema import KIND
from modtf.tasks.cell import Cell
from modtf.tasks.families import IID
from modtf.tasks.protocol import final_of

MODEL = [*KIND, "width", "variant", "data_seed", "seed"]  # identify a model
SIZES = range(1, LONGEST + 1)
PARTS = {name_of(order): max(1, len(order)) for order in orders()}  # condition -> k; ID counts with k = 1
#: Table 1 of the paper: medians over compositions of k = 1 ... 6, the best of three seeds
PUBLISHED = {
    "emnist": {
        "erm": (88.2, 79.5, 17.6, 7.4, 2.8, 2.5),
        "contrastive": (87.7, 79.7, 19.5, 8.6, 3.1, 2.9),
        "modular": (88.8, 85.1, 54.2, 12.9, 3.4, 2.3),
    },
    "cifar10": {
        "erm": (88.5, 66.4, 26.1, 13.5, 10.2, 9.6),
        "contrastive": (89.2, 67.6, 28.6, 14.7, 9.9, 9.2),
        "modular": (89.4, 78.5, 60.5, 23.9, 12.3, 10.4),
    },
}
#: as in the released figures, at the published width
CEILING = {"emnist": 89.0, "cifar10": 92.0}


def by_condition(study: TrainedModels) -> pd.DataFrame:
    """Return a row for every model and condition: its identity, `parts` (k) and `accuracy` in %."""
    rows = study.results
    rows = rows[(rows["measure"] == "error") & rows["condition"].isin(list(PARTS))]
    parts = rows["condition"].astype(str).map(PARTS)
    return rows.assign(parts=parts, accuracy=100.0 - rows["value"])


def by_parts(study: TrainedModels) -> pd.DataFrame:
    """Return the median over compositions for every k and model."""
    rows = by_condition(study)
    return rows.groupby([*MODEL, "parts"], observed=True)["accuracy"].median().reset_index()


def with_invariance(study: TrainedModels, invariance: str = PAPER) -> pd.DataFrame:
    """Return `by_condition` of compositions, with the columns `elemental` (I_e) and `composed` (I_c).

    `invariance` is the formula, "paper" or "released". A composition that was not measured has no row."""
    check_choice("invariance", invariance, FORMULAS)
    accuracies = by_condition(study)[[*MODEL, "condition", "parts", "accuracy"]]
    for column, measure in (("elemental", ELEMENTAL), ("composed", COMPOSED)):
        rows = study.results[study.results["measure"] == invariance_measure(measure, invariance)]
        rows = rows[[*MODEL, "condition", "value"]].rename(columns={"value": column})
        accuracies = accuracies.merge(rows, on=[*MODEL, "condition"])
    return accuracies


def dataset_of(frame: pd.DataFrame) -> str:
    """Return the data set of the rows of one task type."""
    return parse_options(str(frame["task_options"].iloc[0]))["dataset"]


def chance(frame: pd.DataFrame) -> float:
    """Accuracy of guessing, in %."""
    return 100.0 / DATASETS[dataset_of(frame)].classes


def methods(rows: pd.DataFrame, study: TrainedModels) -> pd.DataFrame:
    """Return the rows with each variant named after its method. One set of options represents a method.

    It is, among those that trained longest, the most accurate on validation images in distribution, on tasks
    that all of these have. The published rates and lambdas were chosen so, too. Other sets get the name
    "METHOD (less)". Results that were read from a table have no history: there test images choose, and
    methods are compared on the same images.

    Args:
        rows: with a column `variant`.
        study: the study that the rows come from.
    """
    steps = study.results.groupby("variant", observed=True)["steps"].max()
    plain: dict[str, str] = {}
    for method, part in steps.groupby(lambda name: str(name).partition(" (")[0]):
        chosen = _most_accurate([str(name) for name in part.index[part == part.max()]], study)
        # another variant now has the plain name
        plain |= {str(method): f"{method} (less)", chosen: str(method)}
    return rows.assign(variant=rows["variant"].astype(str).replace(plain))


def _most_accurate(variants: list[str], study: TrainedModels) -> str:
    """Return the variant of the least mean error on tasks that all have; one that diverged comes last."""
    if len(variants) == 1:
        return variants[0]
    rows = _in_distribution(study.history, variants)
    if set(variants) - set(rows["variant"]):
        rows = _in_distribution(study.results, variants)
    model = [name for name in MODEL if name != "variant" and name in rows]
    by_step = rows.sort_values("step").groupby([*model, "variant"], observed=True)["value"]
    scheduled = study.checkpoint == "last"
    ends = by_step.agg(lambda values: float(np.mean(final_of(values.to_list(), scheduled))))
    errors = ends.fillna(np.inf).unstack("variant")
    shared = errors.dropna()
    means = (shared if len(shared) else errors).mean()
    return str(means.mask(np.isinf(errors).any(), np.inf).idxmin())


def _in_distribution(rows: pd.DataFrame, variants: list[str]) -> pd.DataFrame:
    """Return the errors in distribution of some variants, by step."""
    rows = rows[(rows["measure"] == "error") & (rows["condition"] == IID) & rows["variant"].isin(variants)]
    return rows.rename(columns={"steps": "step"}).astype({"variant": str})


def table_1(study: TrainedModels) -> str:
    """Return Table 1's numbers: the maximum over models of the median over compositions (± their
    standard deviation, ddof=1, if there are several).

    Our mean and interval are printed below, and the published numbers if the images are the same.

    Args:
        study: of one task type.
    """
    rows = by_parts(study)
    means = summarise(rows, ["variant", "parts"], [*KIND, "width"], value="accuracy", level=study.level)
    means = means.set_index(["variant", "parts"])
    is_published = set(parse_options(str(rows["task_options"].iloc[0]))) == {"dataset"}
    published = PUBLISHED.get(dataset_of(rows), {}) if is_published else {}
    body = []
    for name in study.variants:
        values = [rows[(rows["variant"] == name) & (rows["parts"] == k)]["accuracy"] for k in SIZES]
        spreads = [f" (± {v.std():.1f})" if len(v) > 1 else "" for v in values]
        texts = [f"{v.max():.1f}{s}" if len(v) else "-" for v, s in zip(values, spreads, strict=True)]
        body.append([name, *texts])
        body.append(["  mean", *(_interval(means, name, k) for k in SIZES)])
        if name in published:
            body.append(["  published", *(f"{value:.1f}" for value in published[name])])
    return text_table(["variant", *(f"k = {k}" for k in SIZES)], body)


def differences(study: TrainedModels) -> str:
    """Return `compared` of all variants with plain training.

    Args:
        study: of one task type, with a variant of the method "erm". If there are several, `methods` chooses
            the reference.
    """
    rows = by_parts(study)
    [reference] = rows.loc[methods(rows, study)["variant"] == "erm", "variant"].unique()
    names = [name for name in study.variants if name != reference]
    return compared(rows, names, reference, study.level)


def compared(rows: pd.DataFrame, names: Sequence[str], reference: str, level: float) -> str:
    """Return by how many points the medians of variants exceed those of a reference, paired by task.

    Every cell has its interval over tasks; the row below it has the `smallest_gain` that was to be
    seen. All comparisons of the table form one family of tests. A star means that p (two-sided) is at most
    1 - level after Holm's correction over all of them, and that both variants have learned single
    corruptions.

    Args:
        rows: the table of `by_parts`.
        names: of the variants.
        reference: the variant to compare with.
        level: of the intervals.
    """
    key = [name for name in (*MODEL, "parts") if name != "variant"]
    pairs = rows.merge(rows[rows["variant"] == reference], on=key, suffixes=("", "_reference"))
    pairs = pairs[pairs["variant"].isin(names)]
    pairs = pairs.assign(gain=pairs["accuracy"] - pairs["accuracy_reference"])
    gains = intervals(pairs, ["variant", "parts"], "gain", level)
    ends = ("mean", "low", "high")
    gains["p"], gains["least"] = (f(gains, level, columns=ends) for f in (two_sided, smallest_gain))
    single, most = rows[rows["parts"] == 1].groupby("variant", observed=True)["accuracy"], 100 - chance(rows)
    learned = {str(name) for name, values in single if has_learned(100 - values, most)}
    gains["sure"] = np.array(holm(gains["p"].tolist())) <= 1 - level
    gains["sure"] &= gains["variant"].isin(learned & {*names} if reference in learned else [])
    cells = gains.set_index(["variant", "parts"])
    body = []
    for name in names:
        body.append([name, *(_difference(cells, name, k) for k in SIZES)])
        body.append(["  seen from (80% power)", *(_least(cells, name, k) for k in SIZES)])
    return text_table([f"less {reference}", *(f"k = {k}" for k in SIZES)], body)


def _difference(gains: pd.DataFrame, name: str, parts: int) -> str:
    if (name, parts) not in gains.index:
        return "-"
    row = gains.loc[(name, parts)]
    interval = f" ({row['low']:.1f} to {row['high']:.1f})" * bool(np.isfinite(row["low"]))
    return f"{row['mean']:+.1f}{interval}{'*' if row['sure'] else ' '}"


def _least(gains: pd.DataFrame, name: str, parts: int) -> str:
    least = gains["least"].get((name, parts), np.nan)
    return f"{least:.1f} " if np.isfinite(least) else "-"


def trainings(study: TrainedModels) -> str:
    """Return a table in Markdown of what variants differ in: learning rates, steps, parameters, tasks.

    Rates of stages that do not have the protocol's follow it, by the name of the trainer's option."""
    rows = []
    results = study.results
    for name in study.variants:
        of = results[results["variant"] == name]
        part = study.part(variant=[name])
        rates = sorted({_rates(cell.definition) for cell in part.cells if cell.is_finished})
        parameters = of.groupby(["data_seed", "seed"])["num_parameters"].first()
        shown = f"{parameters.min():,}" + f" to {parameters.max():,}" * (parameters.nunique() > 1)
        steps, tasks = of["steps"].max(), of["data_seed"].nunique()
        rows.append([name, listing(rates), f"{steps:,}", shown, tasks])
    return markdown_table(["variant", "learning rate", "steps", "parameters", "tasks"], rows)


def _rates(cell: Cell) -> str:
    rate = f"{cell.protocol.training.learning_rate}"
    option, default = STAGE_RATES.get(cell.variant, ("", None))
    return f"{rate}, {option} {cell.trainer.get(option, default)}" if option else rate


def _interval(means: pd.DataFrame, name: str, parts: int) -> str:
    if (name, parts) not in means.index:
        return "-"
    row = means.loc[(name, parts)]
    half = (row["high"] - row["low"]) / 2
    return f"{row['mean']:.1f}" + (f" ±{half:.1f}" if np.isfinite(half) else "")


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
