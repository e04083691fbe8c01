"""y = alpha_c x1 + beta_c x2: one token, labelled by the linear map of its rule (the paper's MLP)."""

from typing import TYPE_CHECKING

from modtf.tasks.families import published_conditions, register_family
from modtf.tasks.families.presets import published_preset, quick_preset
from modtf.tasks.families.varied import FORM_OPTION, VariedFamily
from modtf.tasks.protocol import Preset

if TYPE_CHECKING:
    from modtf.tasks.task import Task


@register_family("mlp")
class MLP(VariedFamily):
    title = "MLP"
    data = "modtf.datasets.families.mlp:Affine"
    architecture = "mlp"
    options = (FORM_OPTION, *VariedFamily.options)
    is_sequence = False
    conditions = published_conditions()
    headline = "scale2"

    def token_width(self, task: "Task") -> int:
        return 2

    def published(self, task: "Task") -> Preset:
        return published_preset(100_000, batch_size=1000, activation_batch_size=1000)

    def quick(self, task: "Task") -> Preset:
        return quick_preset(num_rules=8, tasks=5, seeds=1, steps=10_000, learning_rate=1e-3)
