"""The configurations of `modarch_rules`: one for each published task, others made from their name."""

import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from modtf.datasets.modarch_rules.splits import PreparedSplit, default_sizes, prepared_splits
from modtf.task import SETTINGS, Task, check_integer

PUBLISHED_FAMILIES = (("mlp", None), ("mha", "v1"), ("mha", "v2"), ("rnn", None))
PUBLISHED_RULES = (2, 4, 8, 16, 32)
PUBLISHED_DATA_SEEDS = range(5)

NAME = re.compile(
    r"(?P<arch>[a-z]+)(_(?P<search>v\d+))?_(?P<setting>[a-z]+)(?P<state>_state)?"
    r"_r(?P<num_rules>\d{1,6})_task(?P<data_seed>\d{1,10})"
    r"(_validation(?P<num_validation>\d{1,12})_test(?P<num_test>\d{1,12}))?"
)


@dataclasses.dataclass(eq=False)
class RulesConfig(tfds.core.BuilderConfig):
    """A task and the sizes of its finite splits. The name follows from them.

    Args:
        task: any task.
        num_validation: examples in `validation`; 10,000 (mlp) or 2,560 (mha, rnn) by default.
        num_test: examples in every test split; 25,600 (mlp) or 5,120 (mha, rnn) by default.

    Raises:
        ValueError: on a size below 1.

    Example:
        >>> RulesConfig(task=Task(num_rules=3), num_validation=100, num_test=200).name
        'mlp_regression_r3_task0_validation100_test200'
    """

    name: str = dataclasses.field(init=False, default="")
    task: Task = dataclasses.field(default_factory=Task)
    num_validation: int | None = None
    num_test: int | None = None

    def __post_init__(self) -> None:
        sizes = default_sizes(self.task)
        self.num_validation = sizes[0] if self.num_validation is None else self.num_validation
        self.num_test = sizes[1] if self.num_test is None else self.num_test
        check_integer("num_validation", self.num_validation, 1)
        check_integer("num_test", self.num_test, 1)
        self.name = self.task.name
        if (self.num_validation, self.num_test) != sizes:
            self.name += f"_validation{self.num_validation}_test{self.num_test}"
        self.description = (
            f"{self.task.family} {self.task.setting} with {self.task.num_rules} rules, "
            f"parameters drawn from seed {self.task.data_seed}."
        )

    @property
    def splits(self) -> dict[str, PreparedSplit]:
        """The finite splits by name."""
        return prepared_splits(self.task, int(self.num_validation or 0), int(self.num_test or 0))


def published_configs() -> Iterator[RulesConfig]:
    """The 200 published tasks: families x settings x R x data seeds."""
    grid = itertools.product(PUBLISHED_FAMILIES, SETTINGS, PUBLISHED_RULES, PUBLISHED_DATA_SEEDS)
    for (arch, search), setting, num_rules, data_seed in grid:
        yield RulesConfig(task=Task(arch, setting, num_rules, search, data_seed))


def config_from_name(name: str) -> RulesConfig | None:
    """The configuration of that name, or None where no task has it.

    Example:
        >>> config_from_name("rnn_regression_state_r3_task7").task
        Task(arch='rnn', setting='regression', num_rules=3, search=None, data_seed=7, target='state')
    """
    match = NAME.fullmatch(name)
    if match is None:
        return None
    numbers = {
        key: int(match[key]) for key in ("num_rules", "data_seed", "num_validation", "num_test") if match[key]
    }
    sizes = {key: numbers.pop(key) for key in ("num_validation", "num_test") if key in numbers}
    try:
        target = "state" if match["state"] else "output"
        task = Task(match["arch"], match["setting"], search=match["search"], target=target, **numbers)
        config = RulesConfig(task=task, **sizes)
    except ValueError:
        return None
    return config if config.name == name else None


class ConfigsByName(dict[str, RulesConfig]):
    """The published configurations; any other task is found by its name as well."""

    def __contains__(self, name: object) -> bool:
        return self.get(name) is not None

    def __missing__(self, name: str) -> RulesConfig:
        config = config_from_name(name)
        if config is None:
            close = difflib.get_close_matches(name, self, n=3) or list(self)[:3]
            raise ValueError(
                f"{name!r} is no configuration of modarch_rules. Expected the name of a task, such as "
                f"{', '.join(close)}: FAMILY_SETTING_rRULES_taskSEED, a family of mlp, mha_v1, mha_v2, rnn, "
                f"a setting of {', '.join(SETTINGS)}, at least 2 rules and a seed from 0."
            )
        return config

    def get(self, name: Any, default: Any = None) -> Any:
        if dict.__contains__(self, name):
            return self[name]
        return (config_from_name(name) if isinstance(name, str) else None) or default
