"""Accuracy by the number of corruptions, invariance against accuracy, and all conditions."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from modtf.analysis.figures import Choice, NothingToDraw, Picture, Pictures, note, panels, register_figure
from modtf.analysis.figures.averages import sizes
from modtf.analysis.figures.layout import Look
from modtf.analysis.figures.registry import HELPS, SPECIALISES
from modtf.analysis.labels import parse_options
from modtf.analysis.learned import LEARNED, has_learned, variants_learned
from modtf.analysis.trained import TrainedModels
from modtf.experiments.corruptions import FORMULAS, RELEASED, invariance_measure
from modtf.experiments.corruptions.accuracy import (
    MODEL,
    SIZES,
    by_condition,
    ceiling,
    chance,
    with_invariance,
)
from modtf.experiments.corruptions.conditions import CORRUPTIONS, name_of, orders
from modtf.pages.pictures import GREY, HEAT
from modtf.pages.text import plural

FAMILY = ("corruptions",)
#: rows of the scatter plots: the horizontal and the vertical axis
AGAINST = {
    "accuracy over I_e": ("elemental", "accuracy"),
    "I_c over I_e": ("elemental", "composed"),
    "accuracy over I_c": ("composed", "accuracy"),
}
DARK_ABOVE = 50.0  # % accuracy; darker cells get white text
SAME = 1e-6  # scores closer than this differ only by rounding


def parts_by_kind(study: TrainedModels) -> list[tuple[str, TrainedModels]]:
    """Return the part of every task type, with the suffix of its file names."""
    parts = []
    for arch, setting, options in study.kinds:
        derived = [arch] if arch not in FAMILY else []  # its options alone may be those of `FAMILY`
        name = "_".join([*derived, *parse_options(options).values()]).replace(".", "")
        parts.append((name, study.part(arch, setting, options)))
    return parts


def _averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over models of every condition."""
    by = ["kind", "variant", "condition", "parts"]
    return rows.groupby(by, observed=True)["accuracy"].mean().reset_index()


def _models_note(study: TrainedModels, rows: pd.DataFrame, *words: str) -> str:
    """Return the number of models behind the means, their widths, `words`, and how many models diverged."""
    finite = rows.groupby(MODEL, observed=True)["accuracy"].count() > 0
    models = finite.groupby(level="variant", observed=True).sum()
    least = f"at least {plural(int(models.min()), 'model')} of every variant"
    widths = sizes(rows, ["kind", "variant", "num_rules"])
    lost = int((~finite).sum())
    diverged = [f"{plural(lost, 'model')} diverged and {'is' if lost == 1 else 'are'} left out"] * (lost > 0)
    return note([least, *widths, *words, f"checkpoint {study.checkpoint}"], diverged)


@register_figure(
    "corruptions_accuracy",
    FAMILY,
    question=HELPS,
    shows="The accuracy of each variant under single and composed corruptions.",
)
def accuracy(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw boxes over compositions for every number of corruptions.

    There is a picture per task type, with a panel per variant."""
    parts = [(name, part, by_condition(part)) for name, part in parts_by_kind(study)]
    sizes_of = {name: [k for k in SIZES if k in set(rows["parts"])] for name, _, rows in parts}
    parts = [one for one in parts if len(sizes_of[one[0]]) > 1]
    if not parts:
        raise NothingToDraw(
            "one number of corruptions was measured; --set evaluation.conditions=None measures all"
        )
    for name, part, rows in parts:
        sizes = sizes_of[name]
        lines = {"chance": chance(part.results), "ceiling": ceiling(part)}
        words = (
            "a box: the compositions of k corruptions, each a mean over models; dashed lines: chance and "
            "ceiling"
        )
        yield panels(
            partial(_boxes, sizes=sizes, lines=lines), _averaged(rows), f"corruptions_accuracy_{name}",
            "Accuracy under k corruptions, %", _models_note(part, rows, words), "kind", "variant", (2.2, 2.4),
        )  # fmt: skip


def _boxes(
    axes: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Look],
    sizes: Sequence[int],
    lines: Mapping[str, float],
) -> None:
    look = looks[data["variant"].iloc[0]]
    values = [data[data["parts"] == k]["accuracy"] for k in sizes]
    style: dict[str, Any] = {"patch_artist": True, "widths": 0.6, "medianprops": {"color": "black"}}
    axes.boxplot(values, boxprops={"facecolor": look.colour, "alpha": 0.7}, flierprops={"ms": 2}, **style)
    for value in lines.values():
        if np.isfinite(value):
            axes.axhline(value, color=GREY, linestyle="--", linewidth=0.8)
    axes.set_xticklabels([str(k) for k in sizes])
    axes.set(ylim=(0, 102), xlabel="k corruptions")


@register_figure(
    "corruptions_invariance",
    FAMILY,
    question=SPECIALISES,
    shows="How much the activity of units changes under corruptions.",
)
def invariance(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw a picture per task type and formula: invariance scores against accuracy, for every k and all."""
    drawn, measured = 0, False
    for (name, part), formula in product(parts_by_kind(study), FORMULAS):
        scored = with_invariance(part, formula)
        learned, measured = variants_learned(part), measured or not scored.empty
        scored = scored[scored["variant"].isin(learned)]
        rows = scored.dropna(subset=["accuracy", "elemental", "composed"])
        if rows.empty:
            continue
        drawn += 1
        shown = by_condition(part).merge(rows[MODEL].drop_duplicates(), on=MODEL)
        undefined = len(scored[MODEL].drop_duplicates()) - len(rows[MODEL].drop_duplicates())
        by = ["variant", "condition", "parts"]
        rows = rows.groupby(by, observed=True)[["accuracy", "elemental", "composed"]].mean().reset_index()
        sizes = [(f"k = {k}", rows["parts"] == k) for k in sorted(rows["parts"].unique())]
        most = 100 - chance(part.results)
        table = pd.concat(
            points.assign(pair=pair, x=points[x], y=points[y], size=size, learned=has_learned(errors, most))
            for pair, (x, y) in AGAINST.items()
            for size, keep in [*sizes, ("all", rows["parts"] > 0)]
            for _, points in rows[keep].groupby("variant", observed=True)
            for errors in [100 - points["accuracy"]]
        )
        words = "a point: a composition, mean over models; Pearson's r of these points for every variant "
        words += f"whose median error is at most {LEARNED:.0%} of that of guessing"
        left = sorted(set(part.variants) - set(learned))
        if left:
            words += f"; not shown, because they have more under single corruptions: {', '.join(left)}"
        if undefined:
            words += f"; {plural(undefined, 'model')} without scores left out"
        yield panels(
            _scatter, table, invariance_measure(f"corruptions_invariance_{name}", formula),
            f"Invariance and accuracy, formula of the {formula}{' code' * (formula == RELEASED)}",
            _models_note(part, shown, words), "pair", "size", (3.2, 2.2),
        )  # fmt: skip
    if not drawn:
        lacking = "no invariance of compositions was measured; --set evaluation.conditions=None measures them"
        raise NothingToDraw("no variant has learned the single corruptions" if measured else lacking)


def _scatter(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    texts = []
    for name, look in looks.items():
        rows = data[data["variant"] == name].dropna(subset=["x", "y"])
        if rows.empty:
            continue
        axes.plot(rows["x"], rows["y"], look.marker, color=look.colour, ms=2.5, alpha=0.6, label=name)
        if len(rows) > 2 and rows["learned"].all() and min(np.ptp(rows["x"]), np.ptp(rows["y"])) > SAME:
            texts.append(f"{name} {np.corrcoef(rows['x'], rows['y'])[0, 1]:.2f}")
    axes.set_xlabel("\n".join(texts), size=6.5, ha="left", x=0)


@register_figure(
    "corruptions_conditions",
    FAMILY,
    question=HELPS,
    shows="The accuracy of each variant under every condition.",
)
def conditions(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw two pictures per task type: ordered pairs, the first corruption downwards; all conditions by k."""
    parts = [(name, part, by_condition(part)) for name, part in parts_by_kind(study)]
    singles = {name_of((c,)) for c in CORRUPTIONS}
    parts = [one for one in parts if singles <= set(one[2]["condition"].astype(str))]
    if not parts:
        raise NothingToDraw(
            "not all corruptions were measured; --set evaluation.conditions=None measures them"
        )
    for name, part, rows in parts:
        table = _averaged(rows)
        pairs = table[table["parts"] <= 2]
        title = "Pairs of corruptions: first corruption in rows, second in columns"
        words = _models_note(part, rows, "mean accuracy, %", "the diagonal has the single corruptions")
        name_of_pairs = f"corruptions_pairs_{name}"
        yield panels(_pairs, pairs, name_of_pairs, title, words, "kind", "variant", (2.6, 2.4))
        columns = max(map(len, names_by_k(table).values()))
        size = (0.17 * columns, 0.75 + 0.2 * table["variant"].nunique())
        words = _models_note(part, rows, "mean accuracy, %", "darker is more accurate")
        named = f"corruptions_all_{name}", "All conditions", words
        yield with_colours(panels(_all, table, *named, "parts", None, size), names_by_k(table))


def with_colours(picture: Picture, names: Mapping[int, Any]) -> Picture:
    """Add the colour bar of accuracies, and k above its panel, since names of variants are at its side."""
    (body,) = picture.figure.subfigs
    for axes, k in zip(body.axes, names, strict=True):
        axes.set_ylabel("")
        axes.set_title(f"k = {k}", loc="left", size=9.5, weight="bold")
    colours = ScalarMappable(Normalize(0, 100), HEAT)
    body.colorbar(colours, ax=body.axes, label="accuracy, %", aspect=30, fraction=0.03)
    return picture


def names_by_k(table: pd.DataFrame) -> dict[int, list[str]]:
    """Return the conditions of every k, in the order of all."""
    names = set(table["condition"].astype(str))
    by_k: dict[int, list[str]] = {}
    for order in orders():
        if name_of(order) in names:
            by_k.setdefault(max(1, len(order)), []).append(name_of(order))
    return by_k


def _pairs(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw the ordered pairs; single corruptions are on the diagonal."""
    accuracies = dict(zip(data["condition"].astype(str), data["accuracy"], strict=True))
    values = [
        [accuracies.get(name_of((a, b) if a != b else (a,)), np.nan) for b in CORRUPTIONS]
        for a in CORRUPTIONS
    ]
    _image(axes, np.array(values), CORRUPTIONS, CORRUPTIONS, True)


def _all(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    """Draw the conditions of one k to the right, each with its name."""
    [names] = names_by_k(data).values()
    wide = data.assign(condition=data["condition"].astype(str)).pivot_table(
        "accuracy", "variant", "condition", observed=True
    )[names]
    _image(axes, wide.to_numpy(), list(map(str, wide.index)), names, False)
    axes.tick_params(axis="x", labelrotation=90, labelsize=5.5)


def _image(axes: Axes, values: Any, rows: Any, columns: Any, written: bool) -> None:
    axes.imshow(values, HEAT, vmin=0, vmax=100, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(rows)), rows, size=7)
    axes.set_xticks(range(len(columns)), columns, size=7)
    axes.grid(False)
    for (row, column), value in np.ndenumerate(values) if written else ():
        if np.isfinite(value):
            colour = "white" if value > DARK_ABOVE else "black"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", size=6.5, color=colour)
