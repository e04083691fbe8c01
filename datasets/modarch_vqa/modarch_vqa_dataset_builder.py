"""The TFDS builder `modarch_vqa`: images with names and splits of their own."""

import dataclasses
import itertools
import re
from typing import Any, ClassVar

from etils import epath

from modtf.datasets.image_builder import ImageBuilder
from modtf.datasets.modarch_rules.configs import PreparedSplit, RulesConfig
from modtf.families import FAMILIES
from modtf.task import Task

FAMILY = "vqa_mnist"
CHOICES = {option.name: option.choices or () for option in FAMILIES[FAMILY].options}
NAME = re.compile(
    r"(?P<question>[a-z]+)_r(?P<rounds>\d+)(_(?P<digits>mnist))?(_task(?P<data_seed>\d{1,10}))?"
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
        parts = [task.question, f"r{task.rounds}", *(["mnist"] if task.digits == "mnist" else [])]
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
    match = NAME.fullmatch(name)
    values: dict[str, Any] = {
        key: value for key, value in (match.groupdict() if match else {}).items() if value
    }
    rounds, seed = int(values.pop("rounds", 0)), int(values.pop("data_seed", 0))
    if values.get("question") not in CHOICES["question"] or rounds not in CHOICES["rounds"]:
        questions, numbers = (", ".join(map(str, CHOICES[option])) for option in ("question", "rounds"))
        raise ValueError(
            f"{name!r} is not a configuration of modarch_vqa. Expected QUESTION_rROUNDS, for example "
            f"comparison_r2, with a question of {questions} and rounds of {numbers}, optionally followed by "
            "_mnist and _taskSEED."
        )
    return VQAConfig(task=Task(FAMILY, data_seed=seed, rounds=rounds, **values))


CONFIGS = {
    f"{question}_r{rounds}": find_config(f"{question}_r{rounds}")
    for question, rounds in itertools.product(CHOICES["question"], CHOICES["rounds"])
}


class Builder(ImageBuilder):
    """Questions about pictures of digits; see README.md. A config is a name, such as "comparison_r2"."""

    DEFAULT_BUILDER_CONFIG_NAME = "attribute_r2"
    HOMEPAGE: ClassVar[str] = "https://arxiv.org/abs/2106.08170"
    pkg_dir_path = epath.Path(__file__).parent  # TFDS would use the parent's
    config_class = VQAConfig
    builder_configs = CONFIGS
    find_config = staticmethod(find_config)

    def _class_names(self) -> list[str]:
        return ["no", "yes"]
