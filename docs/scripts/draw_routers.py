"""Print the tables of docs/routers_results.md and docs/constant_rates.md from docs/study/factors.zip.

modtf report --results=studies/factors --archive=docs/study/factors.zip
python docs/scripts/draw_routers.py
"""

from pathlib import Path

import pandas as pd
from draw_cosine import titled
from sources import study_file

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.claims.evidence import mean_evidence
from modtf.analysis.contents import whole_kinds
from modtf.analysis.labels import parse_options
from modtf.analysis.pairs import match_members
from modtf.analysis.rows import performance_rows
from modtf.analysis.table import table_cells
from modtf.experiments.modarch.claims.misrouting import MARGIN, NARROWER
from modtf.experiments.modarch.given import GIVEN, WAYS, effect, times
from modtf.pages.text import markdown_table, with_interval
from modtf.results import CellFolder, find_cells
from modtf.tasks.families import IID

DOCS = Path(__file__).parents[1]
MISROUTING = DOCS / "study" / "misrouting.zip"
MARGINS = {"collapse_avg": 0.05, "alignment": 0.05}  # margins of equivalence
SHOWN = (0, 1_250, 6_250, 12_500, 25_000)  # steps
CHOICES = {"8": "dense", "2": "top-2", "1": "top-1"}
BALANCES = {"none": "", "auxiliary": ", penalty", "bias": ", bias"}
REFERENCES = {
    ("0.0", "weighted"): "perfect",
    ("0.875", "weighted"): "uniform",
    ("0.875", "sampled"): "sampled at random",
}
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
    trained = whole_kinds(find_cells(DOCS / "study" / "factors.zip"), study_file("factors").factors())
    given = [cell for cell in find_cells(MISROUTING) if cell.cell["arch"] == "rnn"]
    return modtf.Study.read([*trained, *filter(_stands_for_itself, given)])


def _stands_for_itself(cell: CellFolder) -> bool:
    said = parse_options(cell.cell["model_options"])
    return said["matrix"] == "spread" and (said["amount"], WAYS[said["hard"] == "True"]) in REFERENCES


def short(router: str, options: str) -> str:
    """Return the page's name of a model.

    Example:
        >>> short("balanced", "k=1,balance=auxiliary,scope=sequence,strength=0.02")
        'top-1, penalty a sequence'
    """
    said = parse_options(options)
    way = WAYS[said.get("hard") == "True"]
    if router == GIVEN:
        return f"twin, {way}, {Path(said['of']).name}" if "of" in said else REFERENCES[said["amount"], way]
    if router == "expert_choice":
        return f"expert choice {float(said['capacity']):g}"
    name = CHOICES[said["k"]] + BALANCES[said["balance"]]
    name += " a sequence" * (said.get("scope") == "sequence")
    return f"{name}; {said['trainer.start']} start" if "trainer.start" in said else name


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


def alone(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without paired runs and warm starts."""
    return frame[~frame["variant"].astype(str).str.contains("twin|start")]


def compared(part: modtf.Study) -> str:
    """Return performance and measures of every router, in Markdown."""
    header, rows = table_cells(alone(named(part.results)), part.level)
    return markdown_table(header[:-2], [row[:-2] for row in rows])


def effects(part: modtf.Study) -> str:
    """Return the effect of balance at the same sparsity, and of sparsity at the same balance, in Markdown."""
    rows = alone(named(part.results))
    parts = {name: rows[rows["measure"] == name] for name in MARGINS}
    found = performance_rows(rows)
    parts = {where: found[found["distribution"] == where] for where in (IN, OUT)} | parts
    of_loss = NARROWER.get(part.kinds[0][0], MARGIN)
    margins = {IN: of_loss, OUT: of_loss, **MARGINS}
    lines, there = [], set(rows["variant"])
    for pairs in (BALANCED, SPARSE, CHOSEN, SCOPES, LEARNED):
        for first, second in pairs:
            if {first, second} <= there:
                cells = []
                for name, of_name in parts.items():
                    pairs = match_members(of_name, first, second)
                    is_measure = name in MARGINS
                    cells.append(effect(pairs, margins[name], part.level, as_difference=is_measure))
                lines.append([f"{first} / {second}", *cells])
    header = [
        f"{name.replace('_', ' ')}, difference" if name in MARGINS else f"times, {name}" for name in parts
    ]
    return markdown_table(["the first / the second", *header], lines)


def prices(part: modtf.Study) -> str:
    """Return the cost of a router's matrix, by its paired runs, and the rest of its cost, in Markdown."""
    performance = performance_rows(named(part.results))
    where = [performance[performance["distribution"] == name] for name in (IN, OUT)]
    rows = []
    for folder, name in _with_twins(part).items():
        cells = []
        for way in WAYS.values():
            twin = [each[each["variant"] == f"twin, {way}, {folder}"] for each in where]
            perfect, router = (
                [each[each["variant"] == which] for each in where] for which in ("perfect", name)
            )
            cells += [times(*pair, part.level) for pair in zip(twin, perfect, strict=True)]
            cells += [times(*pair, part.level) for pair in zip(router, twin, strict=True)]
        rows.append([name, *cells])
    header = [
        f"{what}, {at.split()[0]}"
        for way in WAYS.values()
        for what in (f"{way} paired run / perfect", f"router / {way} paired run")
        for at in (IN, OUT)
    ]
    return markdown_table(["router", *header], rows)


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
            both = [performance[performance["variant"] == which] for which in (model, name)]
            cells += [
                times(*(each[each["distribution"] == where] for each in both), part.level)
                for where in (IN, OUT) * ends
            ]
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
    cosine = modtf.Study.read(DOCS / "study" / "factors_cosine.zip")
    tables += [titled(part, "cosine schedule", effects(part)) for part in cosine.by_kind]
    return {"routers_results.md": tables}


if __name__ == "__main__":
    trained = read()
    print("\n\n".join(texts(trained)["routers_results.md"]))
