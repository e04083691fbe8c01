"""Make the tables of docs/open_questions.md, one question each, and its picture of learning curves."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from learning_curves import ORACLE, examples_of
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter, StrMethodFormatter
from scipy import stats
from sources import ENDS, IMAGES, archive, stands_on, write_pngs

import modtf
from modtf.analysis.figures.layout import Look, by_variant, joined, panels
from modtf.analysis.intervals import holm, intervals
from modtf.analysis.labels import parse_options
from modtf.analysis.pairs import ratios_to
from modtf.metrics import measure_all
from modtf.pages.text import markdown_table, short_number, with_interval
from modtf.tasks.families import FAMILIES, IID
from modtf.tasks.families.varied import zipf as zipf_law

OPTIONS = ("zipf", "num_train", "noise", "withheld", "shell", "hidden", "form")
MEMBER = ["data_seed", "seed"]
SURE = 0.05
MEASURES = ("collapse_avg", "collapse_worst", "alignment", "inverse_mutual_information", "adaptation")
OUTSIDE = ("outside", "len50", "len100", "len30_scale2")
VISIBLE, HIDDEN = "linear", "linear, hidden rule"
#: comparisons of a question, and its tables in Markdown by caption
Answer = tuple[pd.DataFrame, dict[str, str]]
read = partial(archive, "open_questions")


def models(study: modtf.Study, option: str = "") -> pd.DataFrame:
    """Return the results with these further columns: the family's title, the balance of the router, and the
    options of tasks, NaN for those at their default. `option` keeps the tasks that set this option."""
    frame = study.results.sort_values("variant", kind="stable")
    texts = frame["task_options"].astype(str)
    options = pd.DataFrame({text: parse_options(text) for text in texts.unique()}, index=OPTIONS).T
    options = options.astype({name: float for name in OPTIONS if name != "form"})
    balance = frame["model_options"].astype(str).map(lambda text: parse_options(text).get("balance", ""))
    families = frame["arch"].astype(str).map({name: family.title for name, family in FAMILIES.items()})
    frame = frame.assign(family=families, balance=balance, variant=frame["variant"].astype(str))
    frame = frame.assign(**{name: texts.map(options[name]) for name in OPTIONS})
    return frame[frame[option].notna()] if option else frame


def losses(frame: pd.DataFrame, condition: str = IID) -> pd.DataFrame:
    """Return the losses in one condition."""
    return frame[(frame["measure"] == "loss") & (frame["condition"] == condition)]


def means(rows: pd.DataFrame, by: Sequence[str] = ("variant",)) -> pd.DataFrame:
    """Return the mean of `value` with its interval over tasks and its text, a row per combination of `by`, in
    the order of `rows`."""
    rows = rows[[*by, *MEMBER, "value"]].astype(dict.fromkeys(by, str))
    return _with_text(rows[list(by)].drop_duplicates().merge(intervals(rows, by), on=list(by)))


def ratios(rows: pd.DataFrame, others: pd.DataFrame, on: Sequence[str] = ()) -> pd.DataFrame:
    """Return the ratio of values to those of other rows on the same tasks and seeds, a row per variant."""
    order = rows[["variant"]].drop_duplicates()
    return _with_text(order.merge(ratios_to(rows, others, ["variant"], on), on="variant"))


def against(rows: pd.DataFrame, base: str = ORACLE) -> pd.DataFrame:
    """Return the `ratios` of every other variant to one variant."""
    is_base = rows["variant"] == base
    return ratios(rows[~is_base], rows[is_base])


def _with_text(table: pd.DataFrame) -> pd.DataFrame:
    ends = table[ENDS].to_numpy()
    return table.assign(text=[with_interval(*row) for row in ends])


def corrected(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return all comparisons with `p_corrected` (Holm, over all); in `text`, " *" marks at most 0.05."""
    looks = pd.concat(found, ignore_index=True)
    p_values = holm(looks["p"].tolist())
    stars = [" *" * (p <= SURE) for p in p_values]
    return looks.assign(p_corrected=p_values, text=looks["text"] + stars)


def wide(table: pd.DataFrame, rows: Sequence[str]) -> str:
    """Return the column `text` in Markdown: a row for each combination of `rows`, a column for each `column`,
    in the order of the table."""
    columns = list(dict.fromkeys(table["column"]))
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in table.to_dict("records"):
        found.setdefault(tuple(str(row[name]) for name in rows), {})[row["column"]] = row["text"]
    cells = [[*key, *(texts.get(name, "") for name in columns)] for key, texts in found.items()]
    return markdown_table([*(name.replace("_", " ") for name in rows), *columns], cells, left=len(rows))


def unequal(study: modtf.Study) -> Answer:
    """Return what a balancing loss or bias changes under unequal rules, on frequent and rare rules apart."""
    frame = models(study)
    frame = frame[frame["balance"] != ""].assign(
        variant=frame["balance"], zipf=frame["zipf"].fillna(0.0).map("{:g}".format)
    )
    looks = corrected([
        against(losses(part, condition), "none").assign(family=family, zipf=exponent, condition=condition)
        for (family, exponent), part in frame.groupby(["family", "zipf"])
        for condition in (IID, "frequent", "rare")
        if len(losses(part, condition))
    ])  # fmt: skip
    looks["column"] = looks["variant"] + " / none, " + looks["condition"]
    return looks, {
        "Loss of balanced routers as a multiple of that without balance": wide(looks, ["family", "zipf"]),
        "Measures of routing under unequal rules": _routing(frame),
    }


def _routing(frame: pd.DataFrame) -> str:
    """Return the measures of routing under unequal rules, and those of perfect routing, in Markdown."""
    rows, num_rules = [], int(frame["num_rules"].iloc[0])
    for exponent, some in frame.groupby("zipf"):
        perfect = measure_all(np.eye(num_rules), rule_probs=zipf_law(num_rules, float(exponent)))
        rows.append([exponent, "", "perfect routing", *(short_number(perfect[name]) for name in MEASURES)])
        routed = means(some[some["measure"].isin(MEASURES)], ["family", "balance", "measure"])
        for (family, balance), part in routed.groupby(["family", "balance"], sort=False):
            rows.append([exponent, family, balance, *part.set_index("measure").loc[list(MEASURES), "text"]])
    header = ["zipf", "family", "balance", *(name.replace("_", " ") for name in MEASURES)]
    return markdown_table(header, rows, left=3)


def curves(study: modtf.Study, measure: str = "loss") -> pd.DataFrame:
    """Return the mean loss, or another measure, by checkpoint, family and number of training examples."""
    found = []
    for checkpoint in ("best", "last"):
        frame = models(study.at(checkpoint), "num_train")
        rows = losses(frame) if measure == "loss" else frame[frame["measure"] == measure]
        for (family, size), part in rows.groupby(["family", "num_train"]):
            shared = {"family": family, "num_train": f"{size:,.0f}", "checkpoint": checkpoint}
            found.append(means(part).assign(**shared))
    return pd.concat(found, ignore_index=True)


def finite(study: modtf.Study) -> Answer:
    """Return learning curves, the gap between test and training loss, and the examples that variants need."""
    looks, needs, matches = [], [], []
    for checkpoint in ("best", "last"):
        frame = losses(models(study.at(checkpoint), "num_train"))
        for (family, size), part in frame.groupby(["family", "num_train"]):
            shared = {"family": family, "num_train": f"{size:,.0f}", "checkpoint": checkpoint}
            looks.append(against(part).assign(**shared))
        for family, part in frame.groupby("family", sort=False):
            for found, table in zip((needs, matches), examples_of(part), strict=True):
                found.append(table.assign(family=family, checkpoint=checkpoint))
    compared, curve, gap = corrected(looks), curves(study), curves(study, "loss_gap")
    own = curve[curve["variant"] == ORACLE].assign(column=f"loss of {ORACLE}")
    ratios_to_oracle = compared.assign(column=compared["variant"] + f" / {ORACLE}")
    gap = gap[gap["checkpoint"] == "last"].assign(column=gap["variant"])
    by_variant = ["family", "checkpoint", "variant"]
    return compared, {
        f"Loss relative to {ORACLE}, by the number of training examples": wide(
            pd.concat([own, ratios_to_oracle]), ["family", "num_train", "checkpoint"]
        ),
        f"Examples that {ORACLE} needs for the loss that another variant reaches with this many": wide(
            pd.concat(matches), by_variant
        ),
        f"Examples that another variant needs for the loss that {ORACLE} reaches with this many, as a "
        "multiple of them": wide(pd.concat(needs), by_variant),
        "Test loss minus training loss at the end of training (last)": wide(gap, ["family", "num_train"]),
    }


def withheld(study: modtf.Study) -> Answer:
    """Return the loss on pairs of rules that never occurred in training."""
    return _outside(models(study, "withheld"), ("withheld",), "on pairs of rules that training withheld")


def harder(study: modtf.Study) -> Answer:
    """Return the loss outside the ball of the training inputs, and in long sequences."""
    return _outside(models(study, "shell"), OUTSIDE, "outside the training inputs, and in long sequences")


def _outside(frame: pd.DataFrame, conditions: tuple[str, ...], words: str) -> Answer:
    """Return how much the loss grows in other conditions, for every variant."""
    own, looks = [], []
    for family, part in frame.groupby("family", sort=False):
        iid = losses(part)
        for condition in (IID, *conditions):
            rows = losses(part, condition)
            looks.append(against(rows).assign(family=family, column=f"{condition} / {ORACLE}"))
            if condition != IID:
                growth = ratios(rows, iid, ["variant"])
                own.append(growth.assign(family=family, column=f"{condition} / {IID}"))
    compared = corrected(looks)
    return compared, {f"Loss {words}": wide(pd.concat([*own, compared]), ["family", "variant"])}


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
        shown += [means(rows).assign(family=family, column=name) for name, rows in found.items()]
        looks.append(against(found["clean labels"]).assign(family=family, column=f"clean / {ORACLE}"))
    compared = corrected(looks)
    caption = (
        f"Noise of standard deviation {frame['noise'].iloc[0]:g}, which allows no loss below {least:.3f}"
    )
    return compared, {caption: wide(pd.concat([*shown, compared]), ["family", "variant"])}


def rules(study: modtf.Study) -> Answer:
    """Return the order of variants and their ratios to the oracle for other rules, and for hidden rules."""
    frame = models(study)
    most = frame["num_train"] == frame.groupby("family")["num_train"].transform("max")
    arms = frame["form"].mask(frame["hidden"].notna(), HIDDEN).mask(most, VISIBLE)
    frame = frame.assign(rules=arms)[arms.notna()]
    looks, other = [], []
    for (family, arm), part in frame.groupby(["family", "rules"]):
        shared = {"family": family, "rules": arm}
        headline = FAMILIES[str(part["arch"].iloc[0])].headline
        for where, condition in (("in", IID), ("out", headline)):
            looks.append(against(losses(part, condition)).assign(**shared, where=where))
        order = means(losses(part)).sort_values("mean")["variant"]
        bits = means(part[part["measure"] == "input_bits"], ["rules"])["text"].to_list()
        other += [{**shared, "column": "least loss first", "text": ", ".join(order)},
                  {**shared, "column": "bits", "text": "".join(bits)}]  # fmt: skip
    compared = corrected(looks)
    compared["column"] = compared["variant"] + f" / {ORACLE}, " + compared["where"]
    caption = f'Other rules; the rows "{VISIBLE}" are the largest finite sets'
    return compared, {caption: wide(pd.concat([pd.DataFrame(other), compared]), ["family", "rules"])}


QUESTIONS = {question.__name__: question for question in (unequal, finite, withheld, noise, rules, harder)}


def looks_at_all(found: Mapping[str, pd.DataFrame]) -> str:
    """Return how many comparisons of the page survive each correction, in Markdown."""
    looks = pd.concat([looks.assign(question=name) for name, looks in found.items()])
    looks = looks[looks["p"].notna()]
    sure = {"uncorrected": looks["p"], "Holm, by question": looks["p_corrected"]}
    for name, method in (("BH", "bh"), ("BY", "by")):
        sure[f"{name}, all questions"] = stats.false_discovery_control(looks["p"], method=method)
    counts = pd.DataFrame({name: values <= SURE for name, values in sure.items()})
    rows = [[name, len(part), *part.sum()] for name, part in counts.groupby(looks["question"], sort=False)]
    total = ["all", *np.sum([row[1:] for row in rows], axis=0)]
    return markdown_table(["question", "comparisons", *sure], [*rows, total])


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the tables of the page."""
    answers = {name: question(study) for name, question in QUESTIONS.items()}
    looks = looks_at_all({name: looks for name, (looks, _) in answers.items()})
    tables = [f"{caption}\n\n{table}" for _, found in answers.values() for caption, table in found.items()]
    return {"open_questions.md": [stands_on(study.cells, study.checkpoint, looks), *tables]}


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the page."""
    curve = curves(study)
    shown = curve[curve["checkpoint"] == "best"]  # the last weights give the same picture
    picture = panels(
        _mark, shown.assign(panel="lowest validation loss"), "open_questions_finite",
        "Test loss against the number of training examples", "Mean over tasks with its 95% CI.",
        column="panel", row="family", size=(3.0, 2.4),
    )  # fmt: skip
    return write_pngs({picture.name: picture}, folder)


def _arrow(axes: Axes, data: pd.DataFrame) -> None:
    """Draw an arrow from the oracle with fewest examples to where `modular` has its loss."""
    lines = {name: part.sort_values("place") for name, part in data.groupby("variant", observed=True)}
    oracle, modular = (lines[name][["place", "mean"]].to_numpy(float).T for name in (ORACLE, "modular"))
    loss, falling = oracle[1, 0], np.log(modular[1, ::-1])
    end = float(np.interp(np.log(loss), falling, modular[0, ::-1]))
    style = {"arrowstyle": "->", "color": "black", "linewidth": 1.2}
    axes.annotate("", (end, loss), (oracle[0, 0] + 0.15, loss), arrowprops=style)
    plain = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    axes.text((end + 0.15) / 2, loss / 1.6, "same loss with more examples", ha="center", size=8, bbox=plain)


def _mark(axes: Axes, data: pd.DataFrame, looks: Mapping[str, Look]) -> None:
    places = {size: place for place, size in enumerate(dict.fromkeys(data["num_train"]))}
    data = data.assign(place=data["num_train"].map(places))
    for n, (variant, look, part) in enumerate(by_variant(data, looks, "place")):
        joined(axes, variant, look, part["place"] + 0.08 * (n - (data["variant"].nunique() - 1) / 2), part)
    axes.set_xticks(list(places.values()), list(places))
    axes.set(xlim=(-0.4, len(places) - 0.6), xlabel="training examples", ylabel="loss", yscale="log")
    _arrow(axes, data)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
