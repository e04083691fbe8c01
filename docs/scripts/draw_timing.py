"""Make the tables and the figure of docs/timing.md: when must routing be right?

    python docs/scripts/write_search.py studies/timing_search docs/study/timing_search.csv.gz
    python docs/scripts/evaluate_misrouting.py studies/timing docs/study/timing_crossed.csv.gz
    modtf report --results=studies/timing --out=report --archive=docs/study/timing.zip
    python docs/scripts/data.py draw_timing

docs/studies/timing_registered.md is the design. Arms that are not trained have no row.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from sources import ENDS, IMAGES, RESULTS, archive, folder_names, stands_on, study_file, write_pngs

import modtf
from modtf.analysis import kind_label
from modtf.analysis.figures.layout import Look, by_variant, joined, panels
from modtf.analysis.intervals import summarise
from modtf.analysis.learned import final_performance
from modtf.analysis.pairs import ratios_to
from modtf.pages.pictures import Picture
from modtf.pages.text import markdown_table, with_interval

RIGHT, WRONG = "perfect", "wrong"  # routing in evaluation
COLUMNS = ["setting", "where", "share", "amount", "of_rate", "asked", "data_seed", "seed", "value"]
read = partial(archive, "timing")


def losses(study: modtf.Study) -> pd.DataFrame:
    """Return the loss or error of every model, evaluated with perfect routing and with its arm's wrong one.

    Returns:
        setting, where, share, amount and of_rate of the arm, asked (the evaluated routing), data_seed, seed,
        value, constant (the loss of the best constant answer).
    """
    arms = {cell.folder: arm for _, arm, cell in study_file("timing").reported()}
    own = final_performance(study)
    own = own.assign(cell=folder_names(own), asked=RIGHT)
    crossed = pd.read_csv(RESULTS / "timing_crossed.csv.gz")
    crossed = crossed[crossed["measure"].isin(["loss", "error"])]
    crossed = crossed[crossed["measure"].eq("error") == crossed["setting"].eq("classification")]
    names = {name.rsplit("-", 1)[-1]: name for name in arms}
    crossed = crossed.assign(cell=crossed["cell"].map(names), asked=WRONG, amount=crossed["asked_amount"])
    both = pd.concat([own, crossed]).dropna(subset="cell")
    for name in ("where", "share", "of_rate"):
        both[name] = [getattr(arms[cell], name) for cell in both["cell"]]
    own_amount = pd.Series([arms[cell].amount for cell in both["cell"]], both.index)
    both["amount"] = both["amount"].fillna(own_amount)
    constant = own.groupby(["setting", "data_seed"], observed=True)["constant"].median().rename("constant")
    return both[COLUMNS].join(constant, on=["setting", "data_seed"])


def late_over_early(found: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of losses, wrong last over wrong first, for every share, with both losses."""
    rows, by = [], ["setting", "amount", "of_rate", "share", "asked"]
    for key, part in found.groupby(by):
        last, first = (part[part["where"] == where] for where in ("last", "first"))
        if len(last) and len(first):
            [ends] = ratios_to(last, first)[ENDS].to_dict("records")
            means = {"loss_last": last["value"].mean(), "loss_first": first["value"].mean()}
            share = {"constant": part["constant"].mean()}
            rows.append(dict(zip(by, key, strict=True)) | ends | means | share)
    return pd.DataFrame(rows)


def ratio_table(found: pd.DataFrame) -> str:
    """Return `late_over_early` in Markdown."""
    header = ["task type", "wrong routing", "wrong share of", "share", "evaluated with"]
    header += ["wrong last / wrong first", "wrong last", "wrong first", "best constant answer"]
    rows = [
        [
            kind_label("mlp", str(row.setting)),
            f"`spread` {row.amount:g}",
            "integrated rate" if row.of_rate else "steps",
            f"{row.share:g}",
            f"{row.asked} routing",
            with_interval(row.mean, row.low, row.high),
            *(f"{value:.3g}" for value in (row.loss_last, row.loss_first, row.constant)),
        ]
        for row in late_over_early(found).itertuples()
    ]
    return markdown_table(header, rows, left=5)


def arm_table(found: pd.DataFrame) -> str:
    """Return the mean loss of every arm in Markdown."""
    by = ["setting", "amount", "of_rate", "where", "share"]
    wide = found.groupby([*by, "asked"])["value"].mean().unstack("asked").reset_index()
    rows = [
        [
            kind_label("mlp", str(row.setting)), f"`spread` {row.amount:g}",
            "integrated rate" if row.of_rate else "steps", row.where, f"{row.share:g}",
            *("" if pd.isna(value) else f"{value:.3g}" for value in (row.perfect, row.wrong)),
        ]
        for row in wide.itertuples()
    ]  # fmt: skip
    header = ["task type", "wrong routing", "wrong share of", "wrong part", "share"]
    return markdown_table([*header, "evaluated with perfect routing", "with wrong routing"], rows, left=5)


def picture(study: modtf.Study, found: pd.DataFrame) -> Picture:
    """Return the losses of the control against the wrong share of the integrated learning rate."""
    rows = found[found["of_rate"]]
    rows = rows.assign(variant="wrong " + rows["where"], measure="loss")
    means = summarise(rows, ["setting", "amount", "asked", "variant", "share", "measure"], level=study.level)
    named = zip(means["setting"], means["amount"], means["asked"], strict=True)
    named_panels = [
        f"{kind_label('mlp', str(k))}, spread {a:g}: evaluated with {r} routing" for k, a, r in named
    ]
    note = "Means over ten tasks with 95% intervals. Lower is better."
    title = "Loss against the wrong share of the integrated learning rate"
    return panels(_curve, means.assign(what=named_panels), "timing", title, note, None, "what", (3.4, 2.8))


def _curve(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    for name, look, line in by_variant(data, looks, "share"):
        joined(axes, name, look, line["share"], line)
    axes.set_yscale("log")
    axes.set_xlabel("Wrong share")
    axes.set_ylabel("Loss")


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    found = losses(study)
    made = partial(stands_on, study.cells, study.checkpoint)
    return {"timing.md": [made(ratio_table(found)), made(arm_table(found))]}


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the page."""
    return write_pngs({"timing": picture(study, losses(study))}, folder)
