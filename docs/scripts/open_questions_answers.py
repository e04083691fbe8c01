"""Answer the questions of docs/open_questions.md, one function each; draw_open_questions.py writes the page."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from learning_curves import examples_of
from open_questions_figures import picture
from open_questions_tables import (
    ORACLE,
    against,
    corrected,
    losses,
    means,
    models,
    num_models,
    ratios,
    tally,
    wide,
)

import modtf
from modtf.metrics import measure_all
from modtf.pages.pictures import Picture
from modtf.pages.text import markdown_table, short_number
from modtf.tasks.families import FAMILIES, IID
from modtf.tasks.families.varied import zipf as zipf_law

MEASURES = ("collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation")
OUTSIDE = ("outside", "len50", "len100", "len30_scale2")
TOLD, UNTOLD = "linear", "linear, not told"


class Answer(NamedTuple):
    """The answer to one question: sentences and tables in Markdown, the comparisons, and a picture."""

    text: str
    looks: pd.DataFrame
    picture: Picture


def unequal(study: modtf.Study) -> Answer:
    """Return what a balancing loss or bias changes under unequal rules, on frequent and rare rules apart."""
    frame = models(study)
    frame = frame[frame["balance"] != ""].assign(
        variant=frame["balance"], zipf=frame["zipf"].fillna(0.0).map("{:g}".format)
    )
    found = [
        against(losses(part, condition), "none").assign(family=family, x=exponent, condition=condition)
        for (family, exponent), part in frame.groupby(["family", "zipf"])
        for condition in (IID, "frequent", "rare")
        if len(losses(part, condition))
    ]
    looks = corrected(found)
    looks["column"] = looks["variant"] + " / none, " + looks["condition"]
    most = max(looks["x"])
    rare = looks[(looks["x"] == most) & (looks["condition"] == "rare")]
    text = f"""\
Compared with routers without balance, the loss with an auxiliary loss or a bias is {tally(looks)}
({num_models(frame)}). Its multiples on rare rules at Zipf {most}:

{_listed(rare)}

{wide(looks.assign(zipf=looks["x"]), ["family", "zipf"])}

{_routing(frame)}"""
    drawn = picture(
        looks, "open_questions_unequal", "Balance under unequal rules",
        "Loss as a multiple of the loss without balance, against the exponent of Zipf's law: geometric mean "
        "over tasks with its 95% CI.", column="condition", row="family", line=1.0, label="zipf",
    )  # fmt: skip
    return Answer(text, looks, drawn)


def _listed(looks: pd.DataFrame) -> str:
    """Return the text of each row as an item of a list."""
    rows = looks.itertuples()
    return (
        "\n".join(f"- `{row.variant}`, {row.family}: {row.text.removesuffix(' *')}" for row in rows)
        or "(not run)"
    )


def _routing(frame: pd.DataFrame) -> str:
    """Return the measures of routing under unequal rules, and those of perfect routing, in Markdown."""
    rows, rules = [], int(frame["num_rules"].iloc[0])
    for exponent, some in frame.groupby("zipf"):
        perfect = measure_all(np.eye(rules), rule_probs=zipf_law(rules, float(exponent)))
        rows.append([exponent, "", "perfect routing", *(short_number(perfect[name]) for name in MEASURES)])
        routed = means(some[some["measure"].isin(MEASURES)], ["family", "balance", "measure"])
        for (family, balance), part in routed.groupby(["family", "balance"], sort=False):
            rows.append([exponent, family, balance, *part.set_index("measure").loc[list(MEASURES), "text"]])
    header = ["zipf", "family", "balance", *(name.replace("_", " ") for name in MEASURES)]
    return markdown_table(header, rows, left=3)


def finite(study: modtf.Study) -> Answer:
    """Return learning curves, the gap between test and training loss, and the examples that variants need."""
    looks, curves, gaps, needs, matches = [], [], [], [], []
    for checkpoint in ("best", "last"):
        frame = models(study.at(checkpoint), "num_train")
        for (family, size), part in frame.groupby(["family", "num_train"]):
            shared = {"family": family, "num_train": f"{size:,.0f}", "checkpoint": checkpoint}
            looks.append(against(losses(part)).assign(**shared))
            curves.append(means(losses(part)).assign(**shared))
            gaps.append(means(part[part["measure"] == "loss_gap"]).assign(**shared))
        for family, part in losses(frame).groupby("family", sort=False):
            for found, table in zip((needs, matches), examples_of(part), strict=True):
                found.append(table.assign(family=family, checkpoint=checkpoint))
    compared = corrected(looks)
    curve, gap, need, match = (
        pd.concat(found, ignore_index=True) for found in (curves, gaps, needs, matches)
    )
    own = curve[curve["variant"] == ORACLE].assign(column=f"loss of {ORACLE}")
    ratios_to_oracle = compared.assign(column=compared["variant"] + f" / {ORACLE}")
    best = match[(match["checkpoint"] == "best") & (match["num_train"] == match["num_train"].max())]
    few = need[(need["checkpoint"] == "best") & (need["num_train"] == need["num_train"].min())]
    text = f"""\
With the same number of examples, the loss relative to `{ORACLE}` is {tally(compared)} ({num_models(frame)}).
Examples that `{ORACLE}` needs for the loss that others reach with {best["num_train"].max():,.0f}, at the checkpoint `best`:

{_listed(best)}

Examples that others need for the loss that `{ORACLE}` reaches with {few["num_train"].min():,.0f}, as a multiple, at the checkpoint `best`:

{_listed(few)}

{wide(pd.concat([own, ratios_to_oracle]), ["family", "num_train", "checkpoint"])}

Examples that `{ORACLE}` needs for the loss that another variant reaches with this many:

{wide(match, ["family", "checkpoint", "variant"])}

Examples that another variant needs for the loss that `{ORACLE}` reaches with this many, as a multiple of them:

{wide(need, ["family", "checkpoint", "variant"])}

Test loss minus training loss at the end of training (`last`):

{wide(gap[gap["checkpoint"] == "last"].assign(column=gap["variant"]), ["family", "num_train"])}"""
    shown = curve[curve["checkpoint"] == "best"]  # the last weights give the same picture
    drawn = picture(
        shown.assign(x=shown["num_train"], panel="lowest validation loss"),
        "open_questions_finite", "Test loss against the number of training examples",
        "Mean over tasks with its 95% CI.", column="panel", row="family", label="training examples",
    )  # fmt: skip
    return Answer(text, compared, drawn)


def withheld(study: modtf.Study) -> Answer:
    """Return the loss on pairs of rules that never occurred in training."""
    return _outside(
        models(study, "withheld"), ("withheld",), "withheld", "Pairs of rules that training withheld"
    )


def harder(study: modtf.Study) -> Answer:
    """Return the loss outside the ball of the training inputs, and in long sequences."""
    return _outside(
        models(study, "shell"), OUTSIDE, "harder", "Outside the training inputs, and long sequences"
    )


def _outside(frame: pd.DataFrame, conditions: tuple[str, ...], name: str, title: str) -> Answer:
    """Return how much the loss grows in other conditions, for every variant."""
    own, looks = [], []
    for family, part in frame.groupby("family", sort=False):
        iid = losses(part)
        for condition in (IID, *conditions):
            rows = losses(part, condition)
            shared = {"family": family, "x": condition}
            looks.append(against(rows).assign(**shared, column=f"{condition} / {ORACLE}"))
            if condition != IID:
                growth = ratios(rows, iid, ["variant"])
                own.append(growth.assign(**shared, column=f"{condition} / {IID}"))
    compared, growth = corrected(looks), pd.concat(own, ignore_index=True)
    inside, outside = (compared[(compared["x"] == IID) == is_iid] for is_iid in (True, False))
    text = f"""\
In distribution, the loss relative to `{ORACLE}` is {tally(inside)}. In the other conditions it is
{tally(outside)} ({num_models(frame)}).

{wide(pd.concat([growth, compared]), ["family", "variant"])}"""
    drawn = picture(
        growth, f"open_questions_{name}", title,
        "Loss as a multiple of the same models' loss in distribution: geometric mean over tasks with its 95% "
        "CI.", column="family", line=1.0, joins=False,
    )  # fmt: skip
    return Answer(text, compared, drawn)


def noise(study: modtf.Study) -> Answer:
    """Return the loss above the least that noise allows, and the loss on labels without noise."""
    frame = models(study, "noise")
    looks, shown = [], []
    least = float(frame.loc[frame["measure"] == "irreducible_loss", "value"].mean())
    for family, part in frame.groupby("family", sort=False):
        found = {
            "loss": losses(part),
            "above irreducible": losses(part).assign(value=lambda rows: rows["value"] - least),
            "clean labels": losses(part, "clean"),
        }
        shown += [means(rows).assign(family=family, x=name, column=name) for name, rows in found.items()]
        looks.append(against(found["clean labels"]).assign(family=family, column=f"clean / {ORACLE}"))
    compared, table = corrected(looks), pd.concat(shown, ignore_index=True)
    text = f"""\
Noise of standard deviation {frame["noise"].iloc[0]:g} allows no loss below {least:.3f}. The loss on labels without noise as a multiple of that
of `{ORACLE}` ({num_models(frame)}):

{_listed(compared)}

{wide(pd.concat([table, compared]), ["family", "variant"])}"""
    drawn = picture(
        table[table["x"] != "loss"], "open_questions_noise", "Loss under label noise",
        "Mean over tasks with its 95% CI.", column="family", joins=False,
    )  # fmt: skip
    return Answer(text, compared, drawn)


def rules(study: modtf.Study) -> Answer:
    """Return the order of variants and their ratios to the oracle for other rules, and for rules not told."""
    frame = models(study)
    most = frame["num_train"] == frame.groupby("family")["num_train"].transform("max")
    arms = frame["form"].mask(frame["hidden"].notna(), UNTOLD).mask(most, TOLD)
    frame = frame.assign(rules=arms)[arms.notna()]
    looks, other, orders = [], [], {}
    for (family, arm), part in frame.groupby(["family", "rules"]):
        shared = {"family": family, "rules": arm}
        headline = FAMILIES[str(part["arch"].iloc[0])].headline
        for where, condition in (("in", IID), ("out", headline)):
            looks.append(against(losses(part, condition)).assign(**shared, where=where))
        orders[family, arm] = means(losses(part)).sort_values("mean")["variant"].to_list()
        bits = means(part[part["measure"] == "input_bits"], ["rules"])
        other += [{**shared, "column": "least loss first", "text": ", ".join(orders[family, arm])},
                  {**shared, "column": "bits", "text": bits["text"].to_list()[0] if len(bits) else ""}]  # fmt: skip
    compared = corrected(looks)
    compared["column"] = compared["variant"] + f" / {ORACLE}, " + compared["where"]
    alike = [order == [name for name in orders[family, TOLD] if name in order]
             for (family, arm), order in orders.items() if arm != TOLD and (family, TOLD) in orders]  # fmt: skip
    text = f"""\
The order of the variants under linear rules holds in {sum(alike)} of {len(alike)} other cases that have linear rules beside them. The loss relative to `{ORACLE}` is
{tally(compared)} ({num_models(frame)}). The rows "{TOLD}" are the largest finite sets above.

{wide(pd.concat([pd.DataFrame(other), compared]), ["family", "rules"])}"""
    drawn = picture(
        compared[compared["where"] == "in"].assign(x=compared["rules"].str.replace(", ", ",\n")), "open_questions_rules", "Other rules",
        f"Loss in distribution as a multiple of that of {ORACLE}: geometric mean over tasks with its 95% CI.",
        column="family", line=1.0, joins=False,
    )  # fmt: skip
    return Answer(text, compared, drawn)
