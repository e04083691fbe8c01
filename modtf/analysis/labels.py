"""What a reader calls the kinds and variants of a study: written here, once."""

from collections.abc import Callable, Iterable

import pandas as pd

from modtf.families import FAMILIES
from modtf.results.schema import KIND, VARIANTS

RANDOM = "random"  # the row of modules picked at random, behind all variants
Key = tuple[str, ...]


def variant_label(variant: str, model_options: str = "") -> str:
    """A variant and its options: "modular", "modular (modules=16)"."""
    return f"{variant} ({model_options.replace(',', ', ')})" if model_options else variant


def family_label(arch: str, task_options: str = "") -> str:
    """A family and the options of its tasks: "MLP", "MHA v2"."""
    family = FAMILIES[arch]
    known = {option.name: option for option in family.options}
    shown = [family.title]
    for part in filter(None, task_options.split(",")):
        name, _, text = part.partition("=")
        option = known.get(name)
        if option is None:  # of another version of the family
            shown.append(part)
        elif option.choices is None:
            shown.append(option.show(float(text)))
        else:
            shown.append(next((option.show(value) for value in option.choices if str(value) == text), part))
    return " ".join(shown)


def kind_label(arch: str, setting: str, task_options: str = "") -> str:
    """A kind of task: what must not be averaged over unasked.

    Example:
        >>> kind_label(*study.kinds[0])  # doctest: +SKIP
        'MHA v2 regression'
    """
    return f"{family_label(arch, task_options)} {setting}"


def with_kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds `kind`, "MHA v2 regression", a category in the order of the report."""
    return frame.assign(kind=categorise(frame, KIND, lambda *key: kind_label(*key), in_report_order))


def with_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Moves `variant` to a new column `router`, and names each model by its options too."""
    names = categorise(frame, ("variant", "model_options"), variant_label, _from_least_informed)
    return frame.assign(router=frame["variant"], variant=names)


def categorise(
    frame: pd.DataFrame,
    by: Iterable[str],
    words: Callable[..., str],
    order: Callable[[Iterable[Key]], list[Key]] = sorted,
) -> pd.Categorical:
    """What a reader calls every row by some of its columns.

    Args:
        frame: the rows.
        by: the columns.
        words: called with their values, as text.
        order: of the names, given their values.
    """
    by = list(by)
    groups = frame.groupby(by, observed=True, sort=False)
    found = _keys(frame, by)  # as ngroup counts them without sorting: by first appearance
    names = {key: words(*key) for key in order(found)}
    codes = {name: code for code, name in enumerate(dict.fromkeys(names.values()))}
    of_group = pd.Series([codes[names[key]] for key in found], dtype="int64")
    return pd.Categorical.from_codes(of_group.to_numpy()[groups.ngroup().to_numpy()], categories=list(codes))


def in_report_order(kinds: Iterable[Key]) -> list[Key]:
    """(arch, setting, task_options), in the order of the registered families and their settings."""
    archs = list(FAMILIES)

    def place(kind: Key) -> tuple[int, str, int]:
        arch, setting, options = kind
        return archs.index(arch), options, FAMILIES[arch].settings.index(setting)

    return sorted(set(kinds), key=place)


def _from_least_informed(models: Iterable[Key]) -> list[Key]:
    """(variant, model_options): the published ones first, each followed by itself with options."""
    known = len(VARIANTS)
    return sorted(
        set(models), key=lambda m: (VARIANTS.index(m[0]) if m[0] in VARIANTS else known, m[0], m[1])
    )


def _keys(frame: pd.DataFrame, by: list[str]) -> list[Key]:
    """The distinct values of the columns, in the order of their first rows."""
    return [tuple(map(str, key)) for key in frame[by].drop_duplicates().itertuples(index=False, name=None)]
