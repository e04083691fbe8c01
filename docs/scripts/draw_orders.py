"""Compare the order of routers in the rule tasks with that in the language model.

The pages are docs/languages.md and docs/languages_order.md.

    modtf report --results=studies/languages --out=report --archive=docs/study/languages.zip
    modtf report --results=studies/rules --out=report --archive=docs/study/languages_rules.zip
    python docs/scripts/data.py draw_orders
    python docs/scripts/draw_orders.py studies/languages_search studies/languages

docs/studies/languages_registered.md is the design. The statistics were written before any result was known.
Given the folders of both studies, the script writes the reference results of the language card.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from draw_language_parts import crossed, sampled_over_weighted, with_routers
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from numpy.typing import NDArray
from scipy.stats import rankdata, ttest_1samp
from sources import ENDS, IMAGES, archive, interval_of, save, study_file

import modtf
from modtf.analysis import IN
from modtf.analysis.intervals import holm, intervals
from modtf.experiments.languages.family import (
    ACTIVE,
    LANGUAGE,
    LANGUAGE_CHANCE,
    LAYERS,
    LOAD,
    WORD,
    WORD_CHANCE,
    Languages,
)
from modtf.experiments.languages.scorecard import FULL as CARD
from modtf.experiments.languages.scorecard import LEARNED, RATES
from modtf.experiments.modarch.scorecard import card
from modtf.experiments.modarch.studies.scorecard import FULL
from modtf.pages.text import markdown_table, with_interval
from modtf.tasks.families import IID

UNSTABLE = "top-1, bias"  # its loss varies most between corpora
LEAST = 16  # routers with results in both, to compare their orders
LAWS = {"languages": "ROWS", "languages_classes": "CLASSES"}  # archive -> part of the study
DRAWS, PERMUTATIONS, SEED = 10_000, 2_000, 0
STATISTICS = {
    measure: [f"{measure.replace('_', ' ')}, {layer}" for layer in LAYERS]
    for measure in (LANGUAGE, WORD, LANGUAGE_CHANCE, WORD_CHANCE, LOAD, ACTIVE)
}
COLUMNS = [name for names in STATISTICS.values() for name in names]
#: networks that are told the language: name in the picture, active experts, place of the name
TOLD = {
    "dense": ("modular", 8, (-16, -14)),
    "hash": ("hash", 1, (-6, -14)),
    "top-1, penalty": ("switch", 1, (-4, 8)),
}
COLOURS = {8: "#0072B2", 4: "#009E73", 2: "#E69F00", 1: "#CC79A7"}  # by the number of active experts
Array = NDArray[np.float64]
read = partial(archive, "languages")


def spearman(first: Array, second: Array, group: Array | None = None) -> float:
    """Return the rank correlation of two rows of values.

    With `group` the mean rank of every group is first taken from its ranks.

    Example:
        >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([0.1, 0.3, 0.2]))
        0.5
    """
    group = np.zeros(len(first)) if group is None else group
    one, other = rankdata(first), rankdata(second)
    for name in np.unique(group):
        for ranks in (one, other):
            ranks[group == name] -= ranks[group == name].mean()
    length = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / length) if length else 0.0


def places(losses: Sequence[Array]) -> Array:
    """Return each router's mean rank over families, by the median loss over tasks [routers, tasks]."""
    return np.mean([rankdata(np.median(table, axis=1)) for table in losses], axis=0)


def order(rules: Sequence[Array], excess: Array, draws: int = DRAWS) -> tuple[float, float, float]:
    """Return the primary result: Spearman's rho of both orders, with its 95% bootstrap interval.

    Args:
        rules: losses in the rule tasks, an array [routers, tasks] for every family.
        excess: losses of the language model [routers, corpora].
        draws: resamples of routers, of the tasks of every family, and of corpora.
    """
    generator, found = np.random.default_rng(SEED), []
    number = len(excess)
    for _ in range(draws):
        routers = generator.integers(number, size=number)
        tasks = [table[:, generator.integers(table.shape[1], size=table.shape[1])] for table in rules]
        corpora = excess[:, generator.integers(excess.shape[1], size=excess.shape[1])]
        found.append(spearman(places([table[routers] for table in tasks]), corpora[routers].mean(axis=1)))
    low, high = np.quantile(found, [0.025, 0.975])
    return spearman(places(rules), excess.mean(axis=1)), float(low), float(high)


def reading(low: float, high: float, rho: float) -> str:
    """Return how the registered text reads a correlation."""
    if high < 0.6:
        return "the rule tasks do not predict the order of routers in the language model"
    if rho >= 0.6 and low > 0:
        return "the rule tasks predict the order of routers in the language model"
    return "undecided"


def reliability(halves: Sequence[Array]) -> float:
    """Return the reliability of an order: Spearman of both halves of tasks, corrected to all of them.

    Args:
        halves: places of routers by one half of tasks and by the other, [draws, 2, routers].
    """
    mean = float(np.mean([spearman(first, second) for first, second in halves]))
    return 2 * mean / (1 + mean)  # Spearman-Brown


def halves(rules: Sequence[Array], draws: int = 1_000) -> list[Array]:
    """Return places by random halves of the tasks of every family, for `reliability`."""
    generator, found = np.random.default_rng(SEED), []
    for _ in range(draws):
        mixed = [generator.permutation(table.shape[1]) for table in rules]
        both = [
            places([table[:, task[part::2]] for table, task in zip(rules, mixed, strict=True)])
            for part in (0, 1)
        ]
        found.append(np.array(both))
    return found


def held_out(statistic: Array, values: Array) -> float:
    """Return R2 of a line through all routers but the one that it predicts; 0: no better than their mean."""
    centred, deviations = statistic - statistic.mean(), values - values.mean()
    spread = centred @ centred
    if not spread:
        return 0.0
    errors = deviations - centred * (centred @ deviations) / spread
    errors /= 1 - 1 / len(values) - centred**2 / spread  # of a line that has not seen the router
    alone = deviations / (1 - 1 / len(values))
    return float(1 - errors @ errors / (alone @ alone))


def chance(statistic: Callable[[Array], float], values: Array, group: Array | None = None) -> float:
    """Return p of a statistic, two-sided, if `values` belong to routers at random (within a group)."""
    generator, least = np.random.default_rng(SEED), abs(statistic(values))
    group = np.zeros(len(values)) if group is None else group
    reached = 0
    for _ in range(PERMUTATIONS):
        mixed = values.copy()
        for name in np.unique(group):
            mixed[group == name] = generator.permutation(values[group == name])
        reached += abs(statistic(mixed)) >= least - 1e-12
    return (1 + reached) / (1 + PERMUTATIONS)


def write_reference(searched: Path, studied: Path) -> None:
    """Write the reference results of `modtf scorecard --tasks=languages` from the trained cells."""
    by_name: dict[str, dict[float, modtf.Cell]] = {}
    for name, rate, cell in study_file("languages").ROWS.trials():
        if rate in RATES:
            by_name.setdefault(name, {})[rate] = cell
    search = []
    for name, (arch, variant, options) in zip(CARD.routers, CARD.rows(), strict=True):
        whole = CARD.cell(arch, variant, RATES[0], router=options)  # `annealed` is shorter in its trials
        line = card.search_of(CARD, by_name[name], searched)
        search.append({**line, "model_options": whole.columns["model_options"]})
    card.write_card(CARD.shipped(), card.card_of(CARD, CARD.reference(search), search, studied))


def models(study: modtf.Study, part: str = "ROWS") -> pd.DataFrame:
    """Return loss and statistics of every language model of a part of the study: router, data_seed, loss,
    loss out (of distribution), and `COLUMNS`."""
    rows = study.results.astype({"place": str, "measure": str, "condition": str})
    is_out = (rows["condition"] == Languages.headline) & (rows["measure"] == "loss")
    rows = rows.assign(measure=rows["measure"].mask(is_out, "loss_out"))[is_out | (rows["condition"] == IID)]
    rows = with_routers(rows, getattr(study_file("languages"), part).reported())
    names = rows["measure"].str.replace("_", " ") + (", " + rows["place"]).where(rows["place"] != "", "")
    wide = rows.assign(name=names).pivot(index=["router", "data_seed"], columns="name", values="value")
    return wide[["loss", "loss out", *COLUMNS]].reset_index()


def rule_losses() -> dict[str, pd.DataFrame]:
    """Return the losses in the rule tasks, for every family a table of routers by tasks."""
    study = study_file("languages")
    stored = card.reference(FULL)["rows"]
    plain = {variant: name for name, (variant, options) in LEARNED.items() if not options}
    rows = [
        {"arch": row["arch"], "router": plain[row["variant"]], "task": row["data_seed"], "loss": row["loss"]}
        for row in stored
        if row["variant"] in plain
    ]
    found = archive("languages_rules").performance
    found = with_routers(found[found["distribution"] == IN], study.rules_reported())
    columns = found.rename(columns={"data_seed": "task", "value": "loss"})
    rows += columns[["arch", "router", "task", "loss"]].to_dict("records")
    table = pd.DataFrame(rows)
    return {
        str(arch): part.pivot(index="router", columns="task", values="loss")
        for arch, part in table.groupby("arch", observed=True)
    }


def common(rules: Mapping[str, pd.DataFrame], losses: pd.DataFrame) -> list[str]:
    """Return the routers that every family and the language model have."""
    return [name for name in losses.index if all(name in table.index for table in rules.values())]


def active(losses: pd.DataFrame) -> Array:
    """Return the number of active experts of every row: 1, 2, 4 or 8, the nearest."""
    number = losses[STATISTICS[ACTIVE]].mean(axis=1).to_numpy()
    sizes = np.array(list(COLOURS), float)
    return sizes[np.abs(np.log2(np.maximum(number, 1)[:, None] / sizes)).argmin(axis=1)]


def router_table(found: pd.DataFrame, level: float) -> str:
    """Return a row for every router, the best first."""
    rows = []
    means = found.groupby("router").mean(numeric_only=True)
    out = {row.router: row for row in intervals(found, ["router"], "loss out", level).itertuples()}
    for row in intervals(found, ["router"], "loss", level).sort_values("mean").itertuples():
        numbers = [f"{means.loc[row.router, name]:.2f}" for name in COLUMNS]
        losses = [with_interval(one.mean, one.low, one.high, ".4f") for one in (row, out[row.router])]
        rows.append([str(row.router), *losses, *numbers])
    return markdown_table(["router", "excess, nats a token", "out of distribution", *COLUMNS], rows)


def rule_table() -> str:
    """Return the median loss over tasks and the rank of every router in the rule tasks, in Markdown."""
    medians = {arch: table.median(axis=1) for arch, table in rule_losses().items()}
    ranks = {arch: column.rank() for arch, column in medians.items()}
    place = pd.DataFrame(ranks).mean(axis=1).sort_values()
    rows = []
    for name, mean in place.items():
        losses = [f"{column[name]:.4g}" for column in medians.values()]
        rows.append([name, *losses, *(f"{column[name]:g}" for column in ranks.values()), f"{mean:g}"])
    header = [*(f"{arch}, median loss" for arch in medians), *(f"{arch}, rank" for arch in ranks)]
    return markdown_table(["router in the rule tasks", *header, "place"], rows)


def answers(found: pd.DataFrame) -> str:
    """Return the primary result and the reliability of both orders in Markdown, if there are enough routers
    with both."""
    learned = learned_only(found)
    by_corpus = learned.pivot(index="router", columns="data_seed", values="loss")
    rules = rule_losses()
    names = common(rules, by_corpus)
    if len(names) < LEAST:
        return ""
    tables, excess = [rules[arch].loc[names].to_numpy() for arch in rules], by_corpus.loc[names].to_numpy()
    rho, low, high = order(tables, excess)
    rows = [[f"order of {len(names)} routers: {reading(low, high, rho)}", with_interval(rho, low, high)]]
    for arch, table in zip(rules, tables, strict=True):
        rows.append([f"the same with the {arch} alone", with_interval(*order([table], excess))])
    mean = excess.mean(axis=1)
    p = chance(partial(spearman, places(tables)), mean)
    rows.append(["p of the first row by permutation (not registered)", f"{p:.3f}"])
    number = active(learned.groupby("router").mean(numeric_only=True).loc[names])
    for title, chosen in (("both", tables), *zip(rules, ([table] for table in tables), strict=True)):
        alike = partial(spearman, places(chosen), group=number)
        words = f"{alike(mean):+.2f}, p {chance(alike, mean, number):.3f}"
        rows.append([f"{title}, at equal numbers of active experts (not registered)", words])
    rows += [
        ["reliability of the order in the rule tasks", f"{reliability(halves(tables)):.2f}"],
        ["reliability of the order in languages", f"{reliability(halves([excess])):.2f}"],
    ]
    return markdown_table(["quantity", "value"], rows)


def secondary(found: pd.DataFrame, level: float) -> str:
    """Return the registered secondary quantities in Markdown, with Holm's correction for four questions."""
    learned = learned_only(found)
    means = learned.groupby("router").mean(numeric_only=True)
    values, number = np.log(means["loss"].to_numpy()), active(means)
    bits = means[STATISTICS[LANGUAGE]].mean(axis=1).to_numpy()
    names = [name for part in (LANGUAGE, WORD, LOAD, ACTIVE) for name in STATISTICS[part]]
    explained = {name: held_out(means[name].to_numpy(), values) for name in names}
    best = max(explained, key=explained.__getitem__)
    single = means.index[number == 1]
    losses = found.pivot(index="data_seed", columns="router", values="loss")

    def over_corpora(values: pd.Series) -> Array:
        """Return the mean with its interval."""
        return interval_of(values.rename("value").reset_index(), level)

    less_hash = losses[single].mean(axis=1) - losses["hash"]
    stable_less_hash = losses[single.drop(UNSTABLE)].mean(axis=1) - losses["hash"]
    wrong = sampled_over_weighted(crossed())
    p = [
        chance(lambda mixed: spearman(bits, mixed, number), values, number),
        float(ttest_1samp(less_hash, 0).pvalue),
        wrong[-1],
        # one-sided: a line that predicts worse than the mean is no evidence
        chance(lambda mixed: max(0.0, *(held_out(means[name].to_numpy(), mixed) for name in names)), values),
    ]
    corrected = ["<0.001" if each < 0.001 else f"{each:.3f}" for each in holm(p)]
    rho = spearman(bits, values, number)
    generator = np.random.default_rng(SEED)
    drawn = [generator.integers(len(values), size=len(values)) for _ in range(PERMUTATIONS)]
    low, high = np.quantile([spearman(bits[d], values[d], number[d]) for d in drawn], [0.025, 0.975])
    rows = [
        ["language bits against loss", f"{spearman(bits, values):+.2f}", "-"],
        ["the same at equal numbers of active experts", with_interval(rho, low, high), corrected[0]],
        [
            f"loss of {len(single)} learned routers with one active expert, less that of hash",
            with_interval(*over_corpora(less_hash), "+.4f"),
            corrected[1],
        ],
        [
            "loss with a tenth sampled wrong, over that with half of each weight wrong (law rows)",
            with_interval(*wrong[:3]),
            corrected[2],
        ],
        [f"best held-out statistic: {best}", f"R2 {explained[best]:.2f}", corrected[3]],
        *([f"held-out R2 of {name}", f"{value:.2f}", "-"] for name, value in explained.items()),
        [
            f"loss of those with one active expert, less that of hash, without {UNSTABLE}",
            with_interval(*over_corpora(stable_less_hash), "+.4f"),
            "-",
        ],
    ]
    others = means.index != UNSTABLE
    for name in names:
        value = held_out(means[name].to_numpy()[others], values[others])
        rows.append([f"held-out R2 of {name}, without {UNSTABLE}", f"{value:.2f}", "-"])
    for name in ("dense", "hash", "monolithic"):
        ends = np.exp(over_corpora(np.log(losses["gt_modular"] / losses[name])))
        rows.append([f"loss of gt_modular over that of {name}", with_interval(*ends), "-"])
    return markdown_table(["quantity", "value", "p, Holm"], rows)


def learned_only(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of learned routers."""
    return found[found["router"].isin(LEARNED)]


def picture(found: pd.DataFrame, level: float) -> Figure:
    """Return the excess loss against the information about the language, one point a router."""
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes, means = figure.subplots(), found.groupby("router").mean(numeric_only=True)
    ends = intervals(found, ["router"], "loss", level).set_index("router")
    bits = means[STATISTICS[LANGUAGE]].mean(axis=1)
    learned = means.index.isin(LEARNED)
    groups = [(f"{k:g} active", colour, learned & (active(means) == k)) for k, colour in COLOURS.items()]
    for label, colour, chosen in [*groups, ("for comparison", "#555555", ~learned)]:
        for place, name in enumerate(means.index[chosen]):
            mean, low, high = ends.loc[name, ENDS]
            axes.errorbar(
                bits[name], mean, yerr=[[mean - low], [high - mean]], fmt="o", color=colour, ms=5,
                label=None if place else label,
            )  # fmt: skip
            if name == UNSTABLE or not learned[means.index.get_loc(name)]:
                below = (4, -12 if name == "hash" else 4)  # its label would cover that of `uniform`
                axes.annotate(str(name), (bits[name], mean), below, textcoords="offset points", fontsize=8)
    known = models(archive("languages_told"), "TOLD")
    for router, (label, k, where) in TOLD.items():
        rows = known[known["router"] == router]
        place = rows[STATISTICS[LANGUAGE]].to_numpy().mean(), rows["loss"].mean()
        axes.plot(*place, "*", color=COLOURS[k], ms=11)
        axes.annotate(f"{label}, told", place, where, textcoords="offset points", fontsize=8)
    axes.set_xlim(left=0)
    axes.set_yscale("log")
    axes.set_yticks([0.03, 0.04, 0.06, 0.08, 0.12, 0.16])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("Information of the chosen expert about the language, bits (mean of both layers)")
    axes.set_ylabel("Excess loss, nats a token (lower is better)")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def order_picture(found: pd.DataFrame) -> Figure:
    """Return the rank of each router in the language model against that in the rule tasks, one panel a
    family."""
    learned = learned_only(found)
    excess = learned.pivot(index="router", columns="data_seed", values="loss").mean(axis=1)
    rules = rule_losses()
    number = active(learned.groupby("router").mean(numeric_only=True))
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    panels = figure.subplots(1, len(rules), sharey=True)
    for axes, (arch, table) in zip(panels, rules.items(), strict=True):
        place, rank = rankdata(table.loc[excess.index].median(axis=1)), rankdata(excess)
        axes.plot([1, len(rank)], [1, len(rank)], color="#999999", lw=0.8)
        for k, colour in COLOURS.items():
            axes.plot(place[number == k], rank[number == k], "o", color=colour, ms=6, label=f"{k:g} active")
        for name, x, y in zip(excess.index, place, rank, strict=True):
            if y - x > 9:
                axes.annotate(name, (x, y), (6, -3), textcoords="offset points", fontsize=8)
        axes.set_title(f"{arch.upper()}: {spearman(place, excess.to_numpy()):.2f}", fontsize=10)
        axes.set_xlabel("Rank in the rule tasks (1 is best)")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("Rank in the language model")
    panels[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    panels[-1].legend(frameon=False, fontsize=8)
    return figure


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of both pages."""
    orders, tables = [], []
    for name, part in LAWS.items():
        found = models(archive(name), part)
        orders.append(answers(found))
        tables += [secondary(found, study.level), router_table(found, study.level)]
    told = models(archive("languages_told"), "TOLD")
    tables.append(router_table(told, study.level))
    return {"languages.md": tables, "languages_order.md": [*orders, rule_table()]}


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the pictures of both pages."""
    found = models(study)
    pictures = {"languages": picture(found, study.level), "languages_order": order_picture(found)}
    return [save(figure, folder / f"{name}.png") for name, figure in pictures.items()]


if __name__ == "__main__":
    write_reference(*map(Path, sys.argv[1:3]))
