"""The TFDS builder `modarch_vqa`: images with names and splits of their own."""

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from etils import epath

from modtf.datasets.image_builder import ImageBuilder
from modtf.datasets.modarch_rules.configs import (
    ConfigsByName,
    PreparedSplit,
    RulesConfig,
    pattern_of,
    value_of,
)
from modtf.tasks.families import FAMILIES
from modtf.tasks.task import Task

FAMILY = "vqa_mnist"
OPTIONS = {option.name: option for option in FAMILIES[FAMILY].options}
CHOICES = {name: option.choices or () for name, option in OPTIONS.items()}
REST = [option for name, option in OPTIONS.items() if name not in ("question", "rounds")]
NAME = re.compile(
    r"(?P<question>[a-z]+)_r(?P<rounds>\d+)"
    + "".join(f"(_(?P<{option.name}>{pattern_of(option)}))?" for option in REST)
    + r"(_task(?P<data_seed>\d{1,10}))?(_validation(?P<num_validation>\d{1,12})_test(?P<num_test>\d{1,12}))?"
)


@dataclasses.dataclass(eq=False)
class VQAConfig(RulesConfig):
    """A task of the family `vqa_mnist`, and the number of prepared examples.

    Example:
        >>> VQAConfig(task=Task("vqa_mnist", question="spatial", rounds=5)).name
        'spatial_r5'
    """

    task: Task = dataclasses.field(default_factory=lambda: Task(FAMILY))

    def __post_init__(self) -> None:
        super().__post_init__()
        task, sizes = self.task, self.name.removeprefix(self.task.name)
        named = task.named_options
        parts = [task.question, f"r{task.rounds}"]
        parts += [option.show(named[option.name]) for option in REST if option.name in named]
        parts += [f"task{task.data_seed}"] if task.data_seed else []
        self.name = "_".join(parts) + sizes
        self.description = f"Questions of the kind {task.question!r}, {task.rounds} rounds of combinations."

    @property
    def splits(self) -> dict[str, PreparedSplit]:
        """`validation`, `test` and `novel`."""
        made = (
            dataclasses.replace(split, name=split.name.removeprefix("test_"))
            for split in super().splits.values()
        )
        return {split.name: split for split in made}


def find_config(name: str) -> VQAConfig:
    """Return the configuration of a name. Raise `ValueError` if there is none."""
    with contextlib.suppress(KeyError):
        return CONFIGS[name]
    questions, numbers = (", ".join(map(str, CHOICES[option])) for option in ("question", "rounds"))
    raise ValueError(
        f"{name!r} is not a configuration of modarch_vqa. Expected QUESTION_rROUNDS, for example "
        f"comparison_r2, with a question of {questions} and rounds of {numbers}, optionally followed by "
        "_examplesNUMBER, _mnist, _free and _taskSEED, in this order."
    )


class VQAConfigsByName(ConfigsByName):
    """The 24 published questions and rounds. Other tasks are found, too."""

    def __iter__(self) -> Iterator[str]:
        pairs = itertools.product(CHOICES["question"], CHOICES["rounds"])
        return (f"{question}_r{rounds}" for question, rounds in pairs)

    def __getitem__(self, name: str) -> VQAConfig:
        if (match := NAME.fullmatch(name)) is None:
            raise KeyError(name)
        texts = {key: text for key, text in match.groupdict().items() if text}
        question, rounds, seed = (
            texts.pop("question"),
            int(texts.pop("rounds")),
            int(texts.pop("data_seed", 0)),
        )
        sizes = {key: int(texts.pop(key)) for key in ("num_validation", "num_test") if key in texts}
        with contextlib.suppress(ValueError):
            values: dict[str, Any] = {key: value_of(OPTIONS[key], text) for key, text in texts.items()}
            task = Task(FAMILY, data_seed=seed, question=question, rounds=rounds, **values)
            return VQAConfig(task=task, **sizes)
        raise KeyError(name)


CONFIGS = VQAConfigsByName()


class Builder(ImageBuilder):
    """Questions about pictures of digits; see README.md. A config is a name, such as "comparison_r2"."""

    DEFAULT_BUILDER_CONFIG_NAME = "attribute_r2"
    HOMEPAGE: ClassVar[str] = "https://arxiv.org/abs/2106.08170"
    pkg_dir_path = epath.Path(__file__).parent  # TFDS would use the parent's
    config_class = VQAConfig
    builder_configs: ClassVar[Any] = CONFIGS
    find_config = staticmethod(find_config)

    def _class_names(self) -> list[str]:
        return ["no", "yes"]
