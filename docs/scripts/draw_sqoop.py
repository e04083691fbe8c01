"""Make the tables and figures of docs/sqoop.md.

python docs/scripts/write_search.py studies/sqoop_rates docs/study/sqoop_long_tuning.csv.gz
python docs/scripts/write_search.py studies/sqoop_five_rates docs/study/sqoop_five_tuning.csv.gz
python docs/scripts/draw_sqoop.py   # docs/images/sqoop_samples.png: training examples
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
from draw_vqa import SMALLEST, compared, gain_of, rates_of, samples
from sources import IMAGES, RESULTS, archive, study_file, write_pngs

import modtf
from modtf.analysis import IN, OUT
from modtf.analysis.claims.evidence import mean_evidence
from modtf.analysis.intervals import summarise
from modtf.analysis.pairs import match_members, smallest_gain
from modtf.experiments.questions.sets import PLAIN, TREES
from modtf.pages.text import markdown_table, with_interval
from modtf.tasks.protocol import tail_length

sqoop = study_file("sqoop")
ENDS = ("gain", "low", "high")
PAIRS = [*product(TREES, PLAIN), TREES[::-1]]
TRIED = (0.000125, 0.00025, 0.0005, 0.001, 0.002, 0.008, 0.032)  # each for some networks


def read() -> tuple[modtf.Study, modtf.Study]:
    """Return the quick study, and the longer ones with two and with five objects."""
    return archive("sqoop"), archive("sqoop_long", "sqoop_more", "sqoop_five")


def by_objects(study: modtf.Study) -> dict[int, modtf.Study]:
    """Return the parts of the study by the number of objects."""
    return {int(part.cells[0].definition.task.objects): part for part in study.by_kind}


def accuracies(study: modtf.Study) -> str:
    """Return the accuracy of every network on known and on new pairs."""
    rows = []
    for objects, part in sorted(by_objects(study).items()):
        frame = part.performance.assign(value=lambda rows: 100 - rows["value"])
        for name in [name for name in (*PLAIN, *TREES) if name in set(frame["variant"])]:
            own = frame[frame["variant"] == name]
            means = summarise(own, ["distribution"], ["condition", "protocol"], level=part.level)
            means = means.set_index("distribution")
            shown = [
                with_interval(mean, low, min(high, 100), ".1f")
                for mean, low, high in means.loc[[IN, OUT], ["mean", "low", "high"]].to_numpy()
            ]
            size, tasks = f"{own['num_parameters'].max():,}", means.loc[OUT, "num_tasks"]
            rows.append([objects, name, size, rates_of(own), tasks, *shown])
    header = [
        "objects",
        "network",
        "parameters",
        "rate",
        "models",
        "accuracy %, known pairs",
        "accuracy %, new pairs",
    ]
    return markdown_table(header, rows, left=2)


def trials(name: str) -> pd.DataFrame:
    """Return the search for the rates of a longer study: network, rate and its validation error in percent.

    The error is the mean over the last half of the evaluations, by which `modtf tune` chooses.
    """
    history = pd.read_csv(RESULTS / f"{name}_tuning.csv.gz")
    history = history[(history["measure"] == "error") & (history["step"] > 0)].sort_values("step")
    tried = {
        replace(cell, protocol=cell.protocol.replace(learning_rate=rate)).folder: (cell.variant, rate)
        for cell, rate in product(getattr(sqoop, f"{name}_tuning")(), TRIED)
    }
    found = [
        (*tried[folder], rows["value"].tail(tail_length(len(rows))).mean())
        for folder, rows in history.groupby("folder")
    ]
    return pd.DataFrame(found, columns=["network", "rate", "error"])


def searched(name: str, rates: dict[str, float]) -> str:
    """Return the validation error of every network at every rate, and the rate of the study, in Markdown."""
    wide = trials(name).pivot(index="network", columns="rate", values="error")
    shown = wide.map(lambda value: f"{value:.1f}", na_action="ignore").fillna("")
    rows = [[name, *shown.loc[name], f"{rates[name]:g}"] for name in (*PLAIN, *TREES)]
    return markdown_table(["network", *(f"{rate:g}" for rate in wide), "chosen"], rows)


def gains(study: modtf.Study) -> str:
    """Return by how much trees beat plain networks on new pairs, and how the gain depends on the objects."""
    parts = {objects: part.performance for objects, part in sorted(by_objects(study).items())}
    found = compared(parts, PAIRS)
    rows = [
        [row["part"], f"{row['first']} over {row['second']}", *gain_of(row)] for _, row in found.iterrows()
    ]
    for pair in PAIRS:
        each = [match_members(frame[frame["distribution"] == OUT], *pair) for frame in parts.values()]
        if len(each) == 2 and not any(matched.empty for matched in each):
            two, five = (matched.set_index(["data_seed", "seed"])["gain"] for matched in each)
            difference = mean_evidence((five - two).reset_index(), "gain", "", level=study.level)
            ends = difference.value, *difference.interval
            row = {**dict(zip(ENDS, ends, strict=True)), "num_tasks": difference.num_tasks}
            least = f"{smallest_gain(pd.DataFrame([row]), study.level)[0]:.1f}"
            rows.append(["5 less 2", " over ".join(pair), with_interval(*ends, "+.1f"), least, ""])
    header = ["objects", "gain on new pairs", "points of accuracy", SMALLEST, f"p, Holm over {len(found)}"]
    return markdown_table(header, rows, left=2)


def texts(studies: tuple[modtf.Study, modtf.Study]) -> dict[str, list[str]]:
    """Return the tables of the page."""
    tables = [table(study) for study in studies for table in (accuracies, gains)]
    rates = {"sqoop_long": sqoop.RATES, "sqoop_five": sqoop.FIVE_RATES}
    searches = [searched(name, chosen) for name, chosen in rates.items()]
    return {"sqoop.md": [*tables, *searches, of_models(by_objects(studies[1])[5])]}


def of_models(study: modtf.Study) -> str:
    """Return the accuracy of every model on known and on new pairs."""
    frame = study.performance.assign(value=lambda rows: 100 - rows["value"])
    wide = frame.pivot_table("value", ["variant", "data_seed"], "distribution", observed=True)
    names = [name for name in (*PLAIN, *TREES) if name in set(frame["variant"])]
    rows = [
        [name, *(f"{known:.1f}, {new:.1f}" for known, new in wide.loc[name, [IN, OUT]].to_numpy())]
        for name in names
    ]
    tasks = wide.index.get_level_values("data_seed").unique()
    return markdown_table(["network, known and new pairs, %", *(f"task {task}" for task in tasks)], rows)


def draw(studies: tuple[modtf.Study, modtf.Study], folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the longer studies."""
    return write_pngs({"sqoop_long_accuracy": studies[1].figure("sqoop_accuracy")[0]}, folder)


if __name__ == "__main__":
    each = {f"{objects} objects": modtf.Task("sqoop", objects=objects) for objects in (5, 2)}
    samples(IMAGES / "sqoop_samples.png", each, 3.2)
