"""Reads a task from its name. What may stand in one is asked of the families, so theirs alone is the list."""

import re
from functools import cache

from modtf.families import FAMILIES, Family, Option
from modtf.task import Task

NUMBER = r"[-+.\de]+|inf"


def task_from_name(name: str) -> Task | None:
    """The task whose `Task.name` this is, of any registered family, or None where there is none.

    Example:
        >>> task_from_name("rnn_state_regression_r3_task7")
        Task(arch='rnn', setting='regression', num_rules=3, data_seed=7, target='state')
    """
    for family in FAMILIES.values():
        if (match := name_pattern(family).fullmatch(name)) is None:
            continue
        found = match.groupdict()
        options = {o.name: _value(o, text) for o in family.options if (text := found[_group(o)])}
        try:
            task = Task(
                family.name, found["setting"], int(found["num_rules"]), int(found["data_seed"]), **options
            )
        except ValueError:
            continue
        if task.name == name:
            return task
    return None


@cache
def name_pattern(family: Family) -> re.Pattern[str]:
    """FAMILY(_OPTION)..._SETTING_rRULES_taskSEED."""
    options = (f"(_(?P<{_group(option)}>{_values(option)}))?" for option in family.options)
    settings = "|".join(map(re.escape, family.settings))
    return re.compile(
        rf"{re.escape(family.name)}{''.join(options)}_(?P<setting>{settings})"
        r"_r(?P<num_rules>\d{1,6})_task(?P<data_seed>\d{1,10})"
    )


def _group(option: Option) -> str:
    return f"option_{option.name}"


def _values(option: Option) -> str:
    if option.choices is None:
        return f"{re.escape(option.name)}({NUMBER})"
    return "|".join(re.escape(option.show(choice)) for choice in option.choices)


def _value(option: Option, text: str) -> object:
    """The value that `Option.show` shows as `text`."""
    if option.choices is None:
        try:
            return float(text.removeprefix(option.name))
        except ValueError:
            return None
    return next(choice for choice in option.choices if option.show(choice) == text)
