"""The names of task types and variants for readers, written once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from modtf.results.schema import KIND
from modtf.tasks.families import FAMILIES, Family, Option
from modtf.tasks.family import RANDOM as RANDOM
from modtf.tasks.task import Task

CHECKPOINT_WORDS = {
    "tail": "the mean over evaluations at the end of training",
    "last": "after the last step",
    "best": "at the best validation loss or error",
    "pooled": "the mean of last and best",
}
Key = tuple[str, ...]


def variant_label(variant: str, model_options: str = "") -> str:
    """Return a variant and its options: "modular", "modular (modules=16)"."""
    options = model_options.replace(", ", ",").replace(",", ", ")  # tuples already contain ", "
    return f"{variant} ({options})" if options else variant


def place_label(text: str, place: str) -> str:
    """Return a measure or a task type at one of several routed layers: "alignment, encoder"."""
    return f"{text}, {place}" if place else text


def known_variants(archs: Iterable[str] = FAMILIES) -> list[str]:
    """Return the default variants of families, each family's from least to most informed."""
    variants = (variant for arch in archs for variant in FAMILIES[arch].variants if variant.by_default)
    return list(dict.fromkeys(variant.name for variant in variants))


def family_attribute(frame: pd.DataFrame, attribute: str) -> str:
    """Return the "reference" or "checkpoint" of a table's families; raise `ValueError` if they differ."""
    values = {getattr(FAMILIES[arch], attribute) for arch in frame["arch"].unique()}
    if len(values) > 1:
        raise ValueError(
            f"The families have different values of {attribute}: {', '.join(sorted(values))}. Choose one "
            "family."
        )
    return values.pop() if values else getattr(Family, attribute)


def parse_options(text: str) -> dict[str, str]:
    """Return the options in the form that results use.

    Example:
        >>> parse_options("question=attribute,rounds=5")
        {'question': 'attribute', 'rounds': '5'}
    """
    parts = (part.partition("=") for part in text.split(",") if part)
    return {name: value for name, _, value in parts}


def family_label(arch: str, task_options: str = "") -> str:
    """Return a family and the options of its tasks: "MLP", "MHA v2"."""
    family = FAMILIES[arch]
    read = dict(_options(family, task_options))
    options = parse_options(task_options).items()
    words = (
        read[name][0].show(read[name][1]) if name in read else f"{name}={text}" for name, text in options
    )
    same = [name for name in FAMILIES if arch in FAMILIES.outside and FAMILIES[name].title == family.title]
    return " ".join([f"{family.title} ({arch})" if len(same) > 1 else family.title, *words])


def task_of(arch: str, setting: str, task_options: str, num_rules: int) -> Task:
    """Return the task of a task type, named as in the results."""
    options = {name: value for name, (_, value) in _options(FAMILIES[arch], task_options)}
    return Task(arch, setting=setting, num_rules=num_rules, **options)


def _options(family: Family, text: str) -> Iterator[tuple[str, tuple[Option, Any]]]:
    """Return the options that a text names, except those that this version does not know."""
    known = {option.name: option for option in family.options}
    for name, shown in parse_options(text).items():
        option = known.get(name)
        values = option.choices or [float(shown)] if option else []
        for value in values:
            if option and (not option.choices or str(value) == shown):
                yield name, (option, value)


def kind_label(arch: str, setting: str, task_options: str = "") -> str:
    """Return the name of a task type. Different task types are averaged only on request.

    Example:
        >>> kind_label(*study.kinds[0])  # doctest: +SKIP
        'MHA v2 regression'
    """
    return f"{family_label(arch, task_options)} {setting}"


def with_kinds(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the category `kind`, "MHA v2 regression", in the order of the report; rows of a study have it."""
    if "kind" in frame:
        return frame
    return frame.assign(kind=categorise(frame, KIND, kind_label, in_report_order))


def with_variants(frame: pd.DataFrame) -> pd.DataFrame:
    """Move `variant` to a new column `router`, and add each model's options to its name.

    Rows of a study have both."""
    if "router" in frame:
        return frame
    names = categorise(frame, ("variant", "model_options"), variant_label, _from_least_informed)
    return frame.assign(router=frame["variant"], variant=names)


def categorise(
    frame: pd.DataFrame,
    by: Sequence[str],
    words: Callable[..., str],
    order: Callable[[Iterable[Key]], list[Key]] | None = None,
) -> pd.Categorical:
    """Return a name for every row: `words` of the values of the columns `by`, as text.

    The categories follow the `order` of these values; by default the order of the columns.
    """
    by = list(by)
    keys = frame[by].drop_duplicates()  # by first appearance, the order of ngroup without sorting
    values, ordered = (
        [tuple(map(str, key)) for key in some.itertuples(index=False, name=None)]
        for some in (keys, keys.sort_values(by))
    )
    names = {key: words(*key) for key in (order(values) if order else ordered)}
    codes = {name: code for code, name in enumerate(dict.fromkeys(names.values()))}
    of_group = np.array([codes[names[key]] for key in values], dtype="int64")
    groups = frame.groupby(by, observed=True, sort=False).ngroup()
    return pd.Categorical.from_codes(of_group[groups.to_numpy()], categories=list(codes))


def in_report_order(kinds: Iterable[Key]) -> list[Key]:
    """Return (arch, setting, task_options), in the order of the registered families and their settings."""
    archs = list(FAMILIES)
    return sorted(set(kinds), key=lambda k: (archs.index(k[0]), k[2], FAMILIES[k[0]].settings.index(k[1])))


def _from_least_informed(models: Iterable[Key]) -> list[Key]:
    """Return (variant, model_options): those of families first, each followed by versions with options."""
    place = {name: index for index, name in enumerate(known_variants())}
    return sorted(set(models), key=lambda model: (place.get(model[0], len(place)), *model))
