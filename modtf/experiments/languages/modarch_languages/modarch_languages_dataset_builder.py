"""The TFDS builder `modarch_languages`: `modarch_rules` for languages, with shorter names."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

from etils import epath

from modtf.datasets.modarch_rules.configs import CONFIGS as RULES
from modtf.datasets.modarch_rules.configs import ConfigsByName, RulesConfig
from modtf.datasets.modarch_rules.modarch_rules_dataset_builder import Builder as RulesBuilder
from modtf.tasks.families import FAMILIES
from modtf.tasks.task import Task

FAMILY = "languages"
LAWS = next(option.choices for option in FAMILIES[FAMILY].options if option.name == "law") or ()
CORPORA = range(6)


@dataclasses.dataclass(eq=False)
class LanguagesConfig(RulesConfig):
    """A corpus, and the number of prepared documents.

    Example:
        >>> LanguagesConfig(task=Task("languages", law="classes", data_seed=3)).name
        'classes_task3'
    """

    task: Task = dataclasses.field(default_factory=lambda: Task(FAMILY))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = short(self.name, self.task)


def short(name: str, task: Task) -> str:
    """Return the name of a task without the parts that all languages share."""
    return name.removeprefix(f"{FAMILY}_").replace(f"_{task.setting}_r{task.num_rules}_", "_")


def find_config(name: str) -> LanguagesConfig:
    """Return the configuration of a name. Raise `ValueError` if there is none."""
    if (config := CONFIGS.get(name)) is not None:
        return config
    raise ValueError(
        f"{name!r} is not a configuration of modarch_languages. Expected LAW_taskSEED, such as rows_task0, "
        f"with a law of {', '.join(LAWS)}, optionally with _switches1, _languagesNUMBER and "
        "_vocabularyNUMBER in between, in this order."
    )


class LanguagesByName(ConfigsByName):
    """The first six corpora of each law. Other tasks are found, too."""

    def __iter__(self) -> Iterator[str]:
        return (f"{law}_task{number}" for law in LAWS for number in CORPORA)

    def __getitem__(self, name: str) -> LanguagesConfig:
        head, task, seed = name.partition("_task")
        languages = next((part for part in head.split("_") if part.startswith("languages")), "languages8")
        number = languages.removeprefix("languages")
        config = RULES[f"{FAMILY}_{head}_distribution_r{number}{task}{seed}"]
        return LanguagesConfig(
            task=config.task, num_validation=config.num_validation, num_test=config.num_test
        )


CONFIGS = LanguagesByName()


class Builder(RulesBuilder):
    """Documents of known languages; see README.md. A config is a name, such as "rows_task0"."""

    DEFAULT_BUILDER_CONFIG_NAME = "rows_task0"
    HOMEPAGE: ClassVar[str] = RulesBuilder.HOMEPAGE
    pkg_dir_path = epath.Path(__file__).parent  # TFDS would use the parent's
    config_class = LanguagesConfig
    builder_configs: ClassVar[Any] = CONFIGS
    find_config = staticmethod(find_config)
