"""Make the tables of docs/routers_results.md and docs/constant_rates.md from docs/study/factors.zip."""

from pathlib import Path

import pandas as pd
from sources import RESULTS, archive, headed, measures_table, split, study_file, titled, whole_kinds

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.claims.evidence import mean_evidence
from modtf.analysis.labels import parse_options
from modtf.analysis.pairs import match_members
from modtf.analysis.rows import performance_rows
from modtf.experiments.modarch.claims.misrouting import MARGIN, NARROWER
from modtf.experiments.modarch.fixed_routing import CLAMPED, WAYS, effect, times
from modtf.pages.text import markdown_table, with_interval
from modtf.results import CellFolder, find_cells
from modtf.tasks.families import IID

MARGINS = {"collapse_avg": 0.05, "alignment": 0.05}  # margins of equivalence
SHOWN = (0, 1_250, 6_250, 12_500, 25_000)  # steps
factors = study_file("factors")
#: amount of `spread`, and the way of routing -> name
REFERENCES = {(str(amount), WAYS[hard]): name for name, (_, amount, hard) in factors.REFERENCES.items()}
BALANCED = [("dense, penalty", "dense"), ("top-2, penalty", "top-2"), ("top-2, bias", "top-2")]
BALANCED += [("top-1, penalty", "top-1"), ("top-1, bias", "top-1"), ("top-1, penalty", "top-1, bias")]
SPARSE = [(f"{few}{how}", f"{more}{how}") for how in ("", ", penalty", ", bias")
          for few, more in (("top-2", "dense"), ("top-1", "dense"), ("top-1", "top-2"))
          if (how, more) != (", bias", "dense")]  # fmt: skip
CHOSEN = [("expert choice 1", "top-1, penalty"), ("expert choice 2", "top-2, penalty")]
LEARNED = [(name, "uniform") for name in ("dense", "top-2, penalty", "expert choice 2")]
LEARNED += [(f"expert choice {capacity}", "dense") for capacity in (1, 2)]
SCOPES = [("top-1, penalty a sequence", "top-1, penalty")]


def read() -> modtf.Study:
    """Return all models of complete task types; those of fixed routing in the rnn are from `misrouting`."""
    trained = whole_kinds(find_cells(RESULTS / "factors.zip"), factors.factors())
    given = [cell for cell in find_cells(RESULTS / "misrouting.zip") if cell.cell["arch"] == "rnn"]
    return modtf.Study.read([*trained, *filter(_stands_for_itself, given)])


def _stands_for_itself(cell: CellFolder) -> bool:
    options = parse_options(cell.cell["model_options"])
    is_named = (options["amount"], WAYS[options["hard"] == "True"]) in REFERENCES
    return options["matrix"] == "spread" and is_named


def short(router: str, options: str) -> str:
    """Return the page's name of a model.

    Example:
        >>> short("balanced", "k=1,balance=auxiliary,scope=sequence,strength=0.02")
        'top-1, penalty a sequence'
    """
    found = parse_options(options)
    way = WAYS[found.get("hard") == "True"]
    if router == CLAMPED:
        return f"twin, {way}, {Path(found['of']).name}" if "of" in found else REFERENCES[found["amount"], way]
    if router == "expert_choice":
        return f"expert choice {float(found['capacity']):g}"
    name = factors.CHOICES[int(found["k"])] + factors.BALANCES[found["balance"]]
    name += " a sequence" * (found.get("scope") == "sequence")
    return f"{name}; {found['trainer.start']} start" if "trainer.start" in found else name


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the names of the page; reference models come first."""
    models = frame[["router", "model_options"]].drop_duplicates().astype(str)
    names = {tuple(model): short(*model) for model in models.itertuples(index=False)}
    order = [*REFERENCES.values(), *(name for pair in SPARSE + BALANCED + CHOSEN for name in pair[::-1])]
    place = {name: number for number, name in enumerate(dict.fromkeys(order))}
    categories = sorted(dict.fromkeys(names.values()), key=lambda name: (place.get(name, len(place)), name))
    found = [
        names[model]
        for model in zip(frame["router"].astype(str), frame["model_options"].astype(str), strict=True)
    ]
    return frame.assign(variant=pd.Categorical(found, categories))


def single(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without paired runs and warm starts."""
    return frame[~frame["variant"].astype(str).str.contains("twin|start")]


def compared(part: modtf.Study) -> str:
    """Return performance and measures of every router, in Markdown."""
    return measures_table(single(named(part.results)), part.level)


def effects(part: modtf.Study) -> str:
    """Return the effect of balance at the same sparsity, and of sparsity at the same balance, in Markdown."""
    rows = single(named(part.results))
    parts = dict(zip((IN, OUT), split(performance_rows(rows)), strict=True))
    parts |= {name: rows[rows["measure"] == name] for name in MARGINS}
    of_loss = NARROWER.get(part.kinds[0][0], MARGIN)
    margins = {IN: of_loss, OUT: of_loss, **MARGINS}
    lines, trained = [], set(rows["variant"])
    for first, second in (*BALANCED, *SPARSE, *CHOSEN, *SCOPES, *LEARNED):
        if {first, second} <= trained:
            matched = {name: match_members(each, first, second) for name, each in parts.items()}
            cells = [
                effect(pairs, margins[name], part.level, as_difference=name in MARGINS)
                for name, pairs in matched.items()
            ]
            lines.append([f"{first} / {second}", *cells])
    header = [
        f"{name.replace('_', ' ')}, difference" if name in MARGINS else f"times, {name}" for name in parts
    ]
    return markdown_table(["the first / the second", *header], lines)


def prices(part: modtf.Study) -> str:
    """Return the cost of a router's matrix, by its paired runs, and the rest of its cost, in Markdown."""
    halves, rows = split(performance_rows(named(part.results))), []
    for folder, name in _with_twins(part).items():
        cells = []
        for way in WAYS.values():
            twin = f"twin, {way}, {folder}"
            for first, second in ((twin, "perfect"), (name, twin)):
                both = ([half[half["variant"] == which] for which in (first, second)] for half in halves)
                cells += [times(*pair, part.level) for pair in both]
        rows.append([name, *cells])
    ways = [
        words
        for way in WAYS.values()
        for words in (f"{way} paired run / perfect", f"router / {way} paired run")
    ]
    return markdown_table(["router", *headed(ways)], rows)


def _with_twins(part: modtf.Study) -> dict[str, str]:
    """Return the folder of every router with both paired runs -> its name."""
    rows = named(part.results).sort_values("variant")[["folder", "variant"]].drop_duplicates().astype(str)
    folders = {Path(path).name: name for path, name in rows.itertuples(index=False)}
    twins = {folder: {f"twin, {way}, {folder}" for way in WAYS.values()} for folder in folders}
    return {folder: name for folder, name in folders.items() if twins[folder] <= set(rows["variant"])}


def started(part: modtf.Study, measure: str, form: str, *, ends: bool = False) -> str:
    """Return the course of warm starts from the oracle's and from random routing, in Markdown.

    The course is a measure during training. `ends` adds the final performance as a multiple of no warm start.
    """
    rows, history = named(part.results), named(part.history)
    history = history[(history["measure"] == measure) & (history["condition"] == IID)]
    begin = history.groupby("variant", observed=True)["step"].transform("min")  # omit warm-start steps
    history = history.assign(step=history["step"] - begin)
    performance = performance_rows(rows)
    lines = []
    for name in sorted({name.partition(";")[0] for name in rows["variant"].unique() if "start" in name}):
        for start in ("", "; oracle start", "; random start"):
            model = name + start
            of_model = history[history["variant"] == model]
            cells = [_mean(of_model[of_model["step"] == step], part.level, form) for step in SHOWN]
            both = (performance[performance["variant"] == which] for which in (model, name) * ends)
            cells += [times(*pair, part.level) for pair in zip(*map(split, both), strict=True)]
            lines.append([model, *cells])
    steps = [f"{measure} at {step:,}" for step in SHOWN]
    return markdown_table(["router", *steps, *["loss in", "loss out"] * ends], lines)


def _mean(rows: pd.DataFrame, level: float, form: str) -> str:
    found = mean_evidence(rows, "value", "", level=level)
    return with_interval(found.value, *found.interval, form)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = []
    for part in study.by_kind:
        made = [compared(part), effects(part)]
        made += [prices(part)] * bool(_with_twins(part))
        if any("start" in cell.cell["model_options"] for cell in part.cells):
            made += [started(part, "alignment", ".2f", ends=True), started(part, "loss", ".4f")]
        tables += [titled(part, "constant rates", table) for table in made]
    cosine = archive("factors_cosine")
    tables += [titled(part, "cosine schedule", effects(part)) for part in cosine.by_kind]
    return {"routers_results.md": tables}
