"""The figure of misrouting: the cost of routing against its distance from the rules."""

from collections.abc import Mapping
from functools import partial

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter, StrMethodFormatter

from modtf.analysis.figures import Choice, NothingToDraw, Pictures, note, panels, performance, register_figure
from modtf.analysis.figures.averages import counts, lost
from modtf.analysis.figures.layout import Look, by_variant, joined, looks
from modtf.analysis.figures.registry import HELPS
from modtf.analysis.intervals import summarise
from modtf.analysis.pairs import ratios_to
from modtf.analysis.trained import TrainedModels
from modtf.base.words import command_line
from modtf.experiments.modarch.fixed_routing import CLAMPED, family_of_matrices, is_fixed, routing_of
from modtf.metrics import MEASURES

AGAINST = ("alignment", "inverse_mutual_information")
SAMPLED = ", sampled"
PERFECT = ("spread", 0.0)  # matrix and amount
FAMILIES = ("mlp", "mha", "rnn")


@register_figure(
    "misrouting",
    FAMILIES,
    question=HELPS,
    shows="The loss of models with fixed routing against how far the routing is from the rules.",
)
def misrouting(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw performance in and out of distribution by families of fixed routing: a picture per task type.

    Losses are multiples of perfect routing's on the same task and seed, if it was trained. Routers, and
    paired runs with their matrices, are drawn alongside.
    """
    rows = study.results
    if not is_fixed(rows).any():
        command = command_line("sweep", study="docs/studies/misrouting.py:misrouting")
        raise NothingToDraw(f"no {CLAMPED} routing was trained; {command} trains eleven")
    model = ["kind", "variant", "num_rules", "width", "data_seed", "seed"]
    places = rows[rows["measure"].isin(AGAINST)].pivot_table("value", model, "measure", observed=True)
    measured = performance(rows).merge(places.reset_index(), on=model)
    measured["model"] = measured["variant"].astype(str)
    options = measured["model_options"].astype(str)
    start = options.str.extract("trainer.start=(oracle|random)")[0]
    measured["variant"] = (measured["router"].astype(str) + (", " + start + " start").fillna("")).mask(
        measured["router"] == CLAMPED, options.map(family_of_matrices)
    )
    fixed = frozenset(measured.loc[is_fixed(measured), "variant"])
    names = sorted(measured["variant"].unique(), key=lambda name: (name not in fixed, name))
    measured["variant"] = pd.Categorical(measured["variant"], names)
    matrices = [name.removesuffix(", weighted").removesuffix(SAMPLED) for name in names]
    known = looks(pd.Series(matrices))
    lines = ["" if name not in fixed else "--" if name.endswith(SAMPLED) else "-" for name in names]
    alike = [known[matrix]._replace(line=line) for matrix, line in zip(matrices, lines, strict=True)]
    mark = partial(_mark, dict(zip(names, alike, strict=True)))
    for (kind, num_rules, width), part in measured.groupby(["kind", "num_rules", "width"], observed=True):
        perfect = _perfect(part[is_fixed(part)])
        table = _table(study, part, perfect)
        name = f"misrouting_{str(kind).lower().replace(' ', '_')}_r{num_rules}_e{width}"
        title = f"What misrouting costs: {kind}, R = {num_rules}, width {width}"
        ways = "weighted: all modules, mixed by a row of the routing matrix; sampled: one module per token"
        multiples = ["geometric means of multiples of perfect routing's loss or error"] * (not perfect.empty)
        drawn = table[table["against"] == table["against"].iloc[0]]  # each model is in two panels
        text = note([*multiples, counts(study, table), f"checkpoint {study.checkpoint}", ways], lost(drawn))
        yield panels(mark, table, name, title, text, "where", "against", (3.6, 2.6))


def _perfect(matched: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of perfect routing, one per task and seed: weighted, or sampled if that is all."""
    routings = [routing_of(options) for options in matched["model_options"].astype(str)]
    rows = matched.assign(sampled=[which[2] for which in routings])
    rows = rows[[which[:2] == PERFECT for which in routings]]
    return rows.sort_values("sampled", kind="stable").drop_duplicates(["data_seed", "seed", "where"])


def _table(study: TrainedModels, part: pd.DataFrame, perfect: pd.DataFrame) -> pd.DataFrame:
    """Return the mean performance of every model, with the mean of the measure on the horizontal axis."""
    by = ["where", "variant", "model"]
    if perfect.empty:
        over = ["kind", "protocol", "condition", "measure"]
        means = summarise(part, by, over, level=study.level).set_index(by)
    else:
        means = ratios_to(part, perfect, by, ["where"], study.level).set_index(by)
    places = part.groupby(by, observed=True)[list(AGAINST)].mean()
    drawn = [means.assign(x=places[name], against=MEASURES[name].axis_label) for name in AGAINST]
    table = pd.concat(drawn).reset_index().sort_values("x", kind="stable")
    unit = "" if perfect.empty else " over perfect routing's"
    return table.assign(where=table["where"].astype(str) + unit)


def _mark(alike: Mapping[str, Look], axes: Axes, data: pd.DataFrame, _: Mapping[str, Look]) -> None:
    """Draw sampled routing with hollow marks; each matrix has one look."""
    for name, look, line in by_variant(data, alike, "x"):
        inside = "white" if name.endswith(SAMPLED) else look.colour
        joined(axes, name, look, line["x"], line, linewidth=1.2, markerfacecolor=inside)
    axes.set_xlim(-0.03, 1.03)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(_PlainDigits())


class _PlainDigits(LogFormatter):
    """Labels like matplotlib's own, but more of them on an axis shorter than a decade."""

    def __call__(self, x, pos=None):
        return f"{x:g}" if super().__call__(x, pos) else ""
