"""Questions about pairs of letters and digits (SQOOP: Bahdanau et al., 2019; D'Amario et al., 2021)."""

import string
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modtf.experiments.questions.family import QuestionFamily, library
from modtf.experiments.questions.question import RELATIONS, Question
from modtf.tasks.condition import Condition
from modtf.tasks.families import Option, register_family
from modtf.tasks.families.presets import TAIL
from modtf.tasks.family import Variant
from modtf.tasks.protocol import Evaluation, Preset, Protocol, Training

if TYPE_CHECKING:
    from modtf.tasks.task import Task

SYMBOLS = string.ascii_uppercase + "1234567890"
CANVAS = 64  # pixels of the side on which objects are placed


def _vector(name: str, title: str, encoder: str) -> Variant:
    how: dict[str, Any] = {"architecture": "vector_nmn", "model": {"encoder": encoder}}
    return Variant(name, title, router="monolithic", by_default=False, **how)


@register_family("sqoop")
class Sqoop(QuestionFamily):
    """Is object X left of (right of, above, below) object Y? Training pairs every X with few Y."""

    title = "SQOOP"
    data = "modtf.experiments.questions.sqoop_data:Scenes"
    options = (
        Option("objects", 5, "objects in an image", (5, 2), always_named=True),
        Option("variety", 1, "right-hand objects per left-hand object in training", low=1, integer=True),
        Option(
            "symbols",
            len(SYMBOLS),
            "letters and digits that are used",
            low=5,
            high=len(SYMBOLS),
            integer=True,
        ),
        Option(
            "side", CANVAS, "pixels of an image's side; 32 averages 2 x 2 pixels of 64", (CANVAS, CANVAS // 2)
        ),
        Option("examples", 1_080_000, "in training; evaluations use 12,600", low=2, high=1e9, integer=True),
    )
    conditions = (
        Condition("iid", "pairs seen in training", True),
        Condition("novel", "pairs never seen", options={"novel": True}),
    )
    headline = "novel"
    variants = (
        library("all_all_all_bn"),
        library("all_sub_all_bn"),
        library("all_all_all", by_default=False),
        library("all_sub_all", by_default=False),
        Variant("film", "FiLM", router="monolithic", architecture="film"),
        Variant("mac", "MAC", router="monolithic", architecture="mac"),
        _vector("vector_nmn", "Vector-NMN", "all"),
        _vector("vector_nmn_modular", "Vector-NMN, modular encoder", "group"),
    )
    reference, oracle = "all_sub_all_bn", None

    def question(self, task: "Task") -> Question:
        return Question("sqoop", (task.side, task.side, 3), (tuple(SYMBOLS[: task.symbols]),), (RELATIONS,))

    def fixed_rules(self, options: Mapping[str, Any]) -> int:
        return int(options["symbols"]) + len(RELATIONS)

    def check(self, task: "Task") -> None:
        if task.variety > task.symbols - 2:
            raise ValueError(
                f"variety={task.variety} with symbols={task.symbols} leaves no pair for the condition "
                f"'novel'; expected at most {task.symbols - 2}. Choose a smaller variety or more symbols."
            )
        least = 2 * task.symbols * task.variety
        if task.examples < least:
            raise ValueError(
                f"examples={task.examples} leaves a training pair without a yes or a no; expected at least "
                f"{least}, two per pair. Choose more examples or fewer symbols."
            )

    def published(self, task: "Task") -> Preset:
        training = Training(steps=200_000, learning_rate=1e-4, batch_size=64, evaluations=40, tail=TAIL)
        evaluation = Evaluation(batches=100, tokens=50_000)
        return Preset(task.num_rules, 64, 5, 1, Protocol(training, evaluation))

    def published_training(self, task: "Task", variant: str) -> dict[str, Any]:
        """Return what the released scripts and logs say. They have no Vector-NMN on SQOOP."""
        if variant == "film":
            return {"learning_rate": 3e-4}
        if variant == "mac":
            steps = {5: 100_000, 2: 200_000}[task.objects]
            return {"steps": steps, "batch_size": 128, "clipnorm": 8.0}
        # a Residual module for each sub-task, in comparison with one Find
        return {"steps": 50_000} if variant.startswith("all_sub_all") else {}

    def quick(self, task: "Task") -> Preset:
        steps = 800 if task.objects == 2 else 1_500  # with five objects the loss stays at .69 for 700 steps
        training = Training(steps=steps, learning_rate=2e-3, batch_size=64, evaluations=10, tail=TAIL)
        sizes: dict[str, Any] = dict.fromkeys(("batch_size", "activation_batch_size"), 256)
        evaluation = Evaluation(batches=2, tokens=768, draws=5, tokens_per_draw=384, **sizes)
        return Preset(task.num_rules, 8, 5, 1, Protocol(training, evaluation))
