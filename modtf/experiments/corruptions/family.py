"""Images under corruptions and their compositions (Mason et al., "Modularity trumps invariance for
compositional robustness"). Every corruption is a rule."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from modtf.experiments.corruptions.conditions import DATASETS, GROUPS, RULES, name_of, orders, padded
from modtf.tasks.families import IID, Condition, Family, Option, register_family
from modtf.tasks.family import Variant
from modtf.tasks.observed import Probe
from modtf.tasks.protocol import Evaluation, Preset, Protocol, Training

if TYPE_CHECKING:
    from modtf.tasks.task import Task

EPOCHS = 200  # as published; an epoch has as many views as images x rules
TRAINERS = "modtf.experiments.corruptions.trainers"


def severity_of(task: "Task") -> dict[str, float]:
    """Return the strength of the corruptions.

    These are the remaining contrast, the blur's standard deviation in pixels, the share of lost values, and
    the swirl's central angle in radians.
    """
    if task.severity == "lowest":
        return {"contrast": 0.4, "sigma": 1.0, "impulses": 0.03, "swirl": 0.5}
    return {"contrast": task.contrast, "sigma": 2.0, "impulses": 0.27, "swirl": 3.0}


def _conditions() -> tuple[Condition, ...]:
    conditions = [Condition(IID, "one of seven", in_distribution=True)]
    for order in orders():
        group = GROUPS[max(0, len(order) - 1)]
        options = {"order": np.array(padded(order), np.int32)}
        label = " + ".join(order) or RULES[0]
        conditions.append(Condition(name_of(order), label, len(order) < 2, options=options, group=group))
    return tuple(conditions)


@register_family("corruptions")
class CorruptionsFamily(Family):
    title = "Corruptions"
    data = "modtf.experiments.corruptions.data:Corruptions"
    architecture = "corruptions"
    settings = ("categorical",)
    options = (
        Option("dataset", "digits", "whose images", tuple(DATASETS), always_named=True),
        Option(
            "contrast",
            0.3,
            "the contrast after CO: 0.3, as in the released code, or 0.2, as in the paper",
            (0.3, 0.2),
        ),
        Option("severity", "main", "of all corruptions", ("main", "lowest")),
    )
    input_dtype, training_length = "uint8", 1
    rules: ClassVar[tuple[str, ...]] = RULES  # subclasses append those of `Corruptions.more`
    conditions, groups, headline = _conditions(), GROUPS, "pairs"
    checkpoint = "best"
    reference, oracle = "erm", "modular"
    variants = (
        Variant("erm", "plain training", router="monolithic", trainer=f"{TRAINERS}:erm"),
        Variant("contrastive", "invariance", router="monolithic", trainer=f"{TRAINERS}:contrastive"),
        Variant(
            "modular",
            "a module per corruption",
            router="monolithic",
            model={"told": True},
            trainer=f"{TRAINERS}:modular",
        ),
        Variant(
            "routed",
            "modules chosen from the image",
            router="modular",
            model={"router.modules": len(RULES) + 1},
            trainer=f"{TRAINERS}:erm",
        ),
        Variant(
            "image_space",
            "an auto-encoder per corruption",
            router="monolithic",
            model={"told": True, "autoencoders": True},
            trainer="modtf.experiments.corruptions.image_space:image_space",
            by_default=False,
        ),
        Variant(
            "labelled",
            "the corruption as an input",
            router="monolithic",
            model={"labelled": True},
            trainer=f"{TRAINERS}:erm",
            by_default=False,
        ),
    )

    def token_shape(self, task: "Task") -> tuple[int, ...]:
        side = DATASETS[task.dataset].side
        return side, side, 3

    def num_classes(self, task: "Task") -> int:
        return DATASETS[task.dataset].classes

    def fixed_rules(self, options: Mapping[str, Any]) -> int:
        return len(self.rules)

    def rule_names(self, task: "Task") -> tuple[str, ...]:
        return self.rules

    def probes(self, task: "Task") -> tuple[Probe, ...]:
        where = "modtf.experiments.corruptions.invariance"
        return (Probe("invariance", "features", f"{where}:ClassActivation", f"{where}:invariance_rows"),)

    def check(self, task: "Task") -> None:
        if task.severity == "lowest" and task.contrast != 0.3:
            raise ValueError(f"contrast={task.contrast} has no meaning for severity=lowest. Leave it out.")

    def published(self, task: "Task") -> Preset:
        return self._preset(task, 64, EPOCHS, "cosine_epochs")

    def quick(self, task: "Task") -> Preset:
        return self._preset(task, 16, 10, "cosine")

    def _preset(self, task: "Task", width: int, epochs: int, schedule: str) -> Preset:
        of = DATASETS[task.dataset]
        training = Training(
            steps=epochs * (len(self.rules) * of.classes * of.sizes[0] // 256),
            learning_rate=of.rate,
            evaluations=epochs,
            optimizer="sgd",
            momentum=0.9,
            schedule=schedule,
            weight_decay=5e-4,
        )
        batch_size = 250 if of.num_test % 250 == 0 else 200  # so that every test image occurs exactly once
        evaluation = Evaluation(
            batches=of.num_test // batch_size,
            batch_size=batch_size,
            tokens=of.num_test,
            activation_batch_size=batch_size,
            draws=20,
            tokens_per_draw=500,
        )
        return Preset(len(self.rules), width, 3, 1, Protocol(training, evaluation))
