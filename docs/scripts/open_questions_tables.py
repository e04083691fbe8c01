"""Select the models of the study `open_questions`, and compare them in pairs."""

from collections.abc import Sequence

import pandas as pd

import modtf
from modtf.analysis.figures import NothingToDraw
from modtf.analysis.intervals import LEVEL, holm, intervals
from modtf.analysis.labels import parse_options
from modtf.analysis.ratios import ratios_to
from modtf.pages.text import markdown_table, short_number, with_interval
from modtf.tasks.families import FAMILIES, IID

ORACLE = "gt_modular"
OPTIONS = ("zipf", "num_train", "noise", "withheld", "shell", "hidden", "form")
MEMBER = ["data_seed", "seed"]
SURE = 0.05
ENDS = ["mean", "low", "high"]


def models(study: modtf.Study, option: str = "") -> pd.DataFrame:
    """Return the results with these further columns: the family's title, the balance of the router, and the
    options of tasks, NaN for those at their default.

    Args:
        study: the models.
        option: keep the tasks that set this option; by default all.
    """
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


def num_models(frame: pd.DataFrame) -> str:
    """Return "40 models of 10 tasks"."""
    rows = frame.drop_duplicates(["folder", *MEMBER])
    return f"{len(rows)} models of {rows['data_seed'].nunique()} tasks"


def means(rows: pd.DataFrame, by: Sequence[str] = ("variant",), level: float = LEVEL) -> pd.DataFrame:
    """Return the mean of `value` with its interval over tasks and its text, a row per combination of `by`.

    Combinations come in the order in which `rows` first has them.
    """
    rows = rows[[*by, *MEMBER, "value"]].astype(dict.fromkeys(by, str))
    order = rows[list(by)].drop_duplicates()
    return with_words(order.merge(intervals(rows, by, level=level), on=list(by)))


def ratios(
    rows: pd.DataFrame, others: pd.DataFrame, on: Sequence[str] = (), level: float = LEVEL
) -> pd.DataFrame:
    """Return the ratio of values to those of other rows on the same tasks and seeds, a row per variant.

    Args:
        rows, others: rows of `models`.
        on: further columns in which both agree.
        level: of the interval over tasks.

    Returns:
        variant, mean (geometric), low, high, num_tasks, num_models (pairs), num_missing, and p (two-sided, of
        a ratio of 1).
    """
    order = rows[["variant"]].drop_duplicates()
    return with_words(order.merge(ratios_to(rows, others, ["variant"], on, level), on="variant"))


def against(rows: pd.DataFrame, base: str = ORACLE) -> pd.DataFrame:
    """Return the `ratios` of every other variant to one variant."""
    is_base = rows["variant"] == base
    return ratios(rows[~is_base], rows[is_base])


def words(row: pd.Series) -> str:
    """Return "1.23 (1.01 to 1.49)"."""
    return with_interval(*(short_number(row[name]) for name in ENDS), form="")


def with_words(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of means with the column `text`."""
    return table.assign(text=[words(row) for _, row in table.iterrows()])


def corrected(found: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return all comparisons with `p_corrected` (Holm, over all of them); in `text`, " *" marks at most 0.05.

    Raises:
        NothingToDraw: if there are no comparisons.
    """
    if not sum(map(len, found)):
        raise NothingToDraw("no two variants of this question were run")
    looks = pd.concat(found, ignore_index=True)
    p_values = holm(looks["p"].tolist())
    stars = [" *" * (p <= SURE) for p in p_values]
    return looks.assign(p_corrected=p_values, text=looks["text"] + stars)


def tally(looks: pd.DataFrame) -> str:
    """Return in how many comparisons the ratio is below and above 1, in words."""
    sure = looks["p_corrected"] <= SURE
    lower, higher = ((sure & side).sum() for side in (looks["mean"] < 1, looks["mean"] > 1))
    return f"lower in {lower} and higher in {higher} of {len(looks)} comparisons"


def wide(table: pd.DataFrame, rows: Sequence[str]) -> str:
    """Return the column `text` in Markdown: a row for each combination of `rows`, a column for each `column`.

    Rows and columns come in the order in which the table first has them.
    """
    columns = list(dict.fromkeys(table["column"]))
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for row in table.to_dict("records"):
        found.setdefault(tuple(str(row[name]) for name in rows), {})[row["column"]] = row["text"]
    cells = [[*key, *(texts.get(name, "") for name in columns)] for key, texts in found.items()]
    return markdown_table([*(name.replace("_", " ") for name in rows), *columns], cells, left=len(rows))
