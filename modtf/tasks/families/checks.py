"""Checks a family when it is registered."""

from collections.abc import Mapping, Sequence
from typing import Any

from modtf.base.checks import check_attributes, check_choice, check_integer
from modtf.tasks.condition import IID, SETTINGS, Condition
from modtf.tasks.family import Family, Option, Variant

#: names that mean something else: attributes of every task, and settings of a cell
TAKEN = {
    "arch", "condition", "data_seed", "example_shapes", "family", "identity", "input_dtype", "is_sequence",
    "kind", "name", "named_options", "num_rules", "options", "output_width", "performance", "places",
    "replace", "setting", "shape_key", "target_dtype", "target_width", "to_dict", "token_shape",
    "token_width", "architecture", "members", "preset", "protocol", "seeds", "tasks", "variant", "width",
}  # fmt: skip


def check_family(name: str, family: Any) -> None:
    """Raise `ValueError` if a family lacks something that its readers need."""
    if not isinstance(family, Family):  # a class is not an instance either
        raise ValueError(f"The family {name!r} must be a subclass of modtf.Family, received {family!r}.")
    lacking = [
        a for a in ("title", "data", "architecture", "conditions", "headline") if not hasattr(family, a)
    ]
    lacking += [
        f"{method}(task)"
        for method in ("token_width", "published", "quick")
        if getattr(type(family), method) is getattr(Family, method)
        and not (method == "token_width" and type(family).token_shape is not Family.token_shape)
    ]
    if lacking:
        raise ValueError(
            f"The family {name!r} does not define {', '.join(lacking)}. Define what modtf.Family documents."
        )
    _check_kinds(name, family)
    _check_conditions(name, family)


def _check_kinds(name: str, family: Family) -> None:
    """Raise `ValueError` if an attribute has another type than its readers expect."""
    kinds = {"conditions": Condition, "options": Option, "settings": str, "variants": Variant}
    kinds["more_conditions"] = Condition
    for attribute, kind in kinds.items():
        values = getattr(family, attribute)
        several = isinstance(values, tuple | list) and (
            bool(values) or attribute in ("options", "more_conditions")
        )
        if not several or not all(isinstance(value, kind) for value in values):
            raise ValueError(
                f"The family {name!r} has {attribute}={values!r}; expected a tuple of {kind.__name__}."
            )
    check_attributes(f"The family {name!r}", family, title=str, architecture=str, headline=str)
    _check_together(f"The family {name!r}", family.options)
    for attribute in ("training_length", "min_tokens"):
        check_integer(f"The family {name!r}: {attribute}", getattr(family, attribute), 1)
    for setting in family.settings:
        check_choice(f"The family {name!r}: a setting", setting, SETTINGS)
    measures = family.performance
    if not isinstance(measures, Mapping) or not all(m in ("loss", "error") for m in measures.values()):
        raise ValueError(
            f'The family {name!r} has performance={measures!r}; expected "loss" or "error" by setting.'
        )
    variants = [variant.name for variant in family.variants]
    if len(set(variants)) < len(variants):
        raise ValueError(f"The family {name!r} has two variants of the same name: {', '.join(variants)}.")
    check_choice(f"The family {name!r}: reference", family.reference, variants)
    check_choice(f"The family {name!r}: oracle", family.oracle, [*variants, None])
    check_choice(f"The family {name!r}: checkpoint", family.checkpoint, ("tail", "last", "best"))


def _check_together(what: str, options: Sequence[Option]) -> None:
    """Raise `ValueError` if the options of a family cannot be told apart, or one has the name of something
    else. A task's name shows a text without the option's name."""
    names = [option.name for option in options]
    texts = [choice for option in options for choice in option.choices or () if isinstance(choice, str)]
    for value, words in (
        (next((name for name in names if name in TAKEN), None), "an option {}, which has another meaning"),
        (next((name for name in names if names.count(name) > 1), None), "two options {}"),
        (next((text for text in texts if texts.count(text) > 1), None), "two options with the choice {}"),
    ):
        if value is not None:
            raise ValueError(f"{what} has {words.format(repr(value))}. Choose another name.")


def _check_conditions(name: str, family: Family) -> None:
    """Raise `ValueError` if conditions, groups and headline do not fit together."""
    more = tuple(condition.name for condition in family.more_conditions)
    names = (*family.condition_names, *family.groups, *more)
    if names[0] != IID or family.headline not in names:
        raise ValueError(
            f"The conditions of the family {name!r} must begin with {IID!r} and contain its headline "
            f"{family.headline!r}; received {', '.join(names)}."
        )
    for condition in family.more_conditions:
        if condition.group or condition.while_training:
            raise ValueError(
                f"The family {name!r} has {condition.name!r} in more_conditions, with a group or "
                "while_training, which apply to its conditions only. Leave them out."
            )
    groups = dict.fromkeys(condition.group for condition in family.conditions if condition.group)
    if set(groups) != set(family.groups) or len(set(names)) < len(names):
        raise ValueError(
            f"The family {name!r} has groups={family.groups!r}; expected the groups of its conditions in "
            f"order, {', '.join(groups) or 'none'}, with names that differ from the conditions' names."
        )
