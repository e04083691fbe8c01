"""y_n = alpha_c v_{s,c} + beta_c v'_{s',c}: every token searches the others (the paper's MHA)."""

from typing import TYPE_CHECKING

from modtf.tasks.families import Option, published_conditions, register_family
from modtf.tasks.families.presets import published_preset, quick_preset
from modtf.tasks.families.varied import FORM_OPTION, SEQUENCE_CONDITIONS, SEQUENCE_OPTIONS, VariedFamily
from modtf.tasks.protocol import Preset

if TYPE_CHECKING:
    from modtf.tasks.task import Task

KEY_WIDTH = {"v1": 1, "v2": 2}  # scalar keys; unit vectors in the plane


@register_family("mha")
class MHA(VariedFamily):
    title = "MHA"
    data = "modtf.datasets.families.mha:Lookup"
    architecture = "mha"
    options = (
        Option("search", "v1", "how tokens search: v1 by scalar keys, v2 by unit vectors in the plane",
               choices=tuple(KEY_WIDTH), always_named=True),
        FORM_OPTION,
        *VariedFamily.options,
        *SEQUENCE_OPTIONS,
    )  # fmt: skip
    min_tokens = 2  # a token searches another one
    conditions = published_conditions(VariedFamily.training_length, (3, 5, 10, 20, 30))
    more_conditions = (*VariedFamily.more_conditions, *SEQUENCE_CONDITIONS)
    headline = "len30_scale2"

    def token_width(self, task: "Task") -> int:
        return task.num_rules * 2 * (KEY_WIDTH[task.search] + 1)  # two keys q, q' and two values v, v'

    def check(self, task: "Task") -> None:
        super().check(task)
        if task.search == "v2" and (task.shell or task.shift):
            raise ValueError(
                "shell and shift have a meaning for search=v1 alone: the keys of v2 have length 1."
            )

    def published(self, task: "Task") -> Preset:
        sizes = {"batch_size": 1000 if task.setting == "classification" else 256, "tokens": 10_000_000}
        return published_preset(500_000, **sizes, activation_batch_size=1000, tokens_per_draw=100_000)

    def quick(self, task: "Task") -> Preset:
        sizes = {"batches": 20, "batch_size": 128, "activation_batch_size": 128}
        sizes |= {"tokens": 25_600, "draws": 10, "tokens_per_draw": 1_280}
        return quick_preset(num_rules=2, tasks=3, seeds=1, steps=2_000, learning_rate=2e-3, **sizes)
