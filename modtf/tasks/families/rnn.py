"""s_n = s_{n-1} A_c + x_n B_c, y_n = s_n w: switching linear dynamics (the paper's RNN)."""

from typing import TYPE_CHECKING

from modtf.tasks.families import Option, published_conditions, register_family
from modtf.tasks.families.presets import published_preset, quick_preset
from modtf.tasks.families.varied import SEQUENCE_CONDITIONS, SEQUENCE_OPTIONS, VariedFamily
from modtf.tasks.protocol import Preset

if TYPE_CHECKING:
    from modtf.tasks.task import Task

WIDTH = 32  # D, of a token and of the hidden state
CLIPNORM = 1.0


@register_family("rnn")
class RNN(VariedFamily):
    title = "RNN"
    data = "modtf.datasets.families.rnn:LinearDynamics"
    architecture = "rnn"
    options = (
        Option(
            "target",
            "output",
            "what is predicted: output is y_n; state is the whole hidden state s_n (regression only)",
            choices=("output", "state"),
        ),
        *VariedFamily.options,
        *SEQUENCE_OPTIONS,
    )
    conditions = published_conditions(VariedFamily.training_length, (3, 5, 10, 20, 30))
    more_conditions = (*VariedFamily.more_conditions, *SEQUENCE_CONDITIONS)
    headline = "len30_scale2"

    def token_width(self, task: "Task") -> int:
        return WIDTH

    def target_width(self, task: "Task") -> int | None:
        return WIDTH if task.target == "state" else None

    def check(self, task: "Task") -> None:
        super().check(task)
        if task.target == "state" and task.setting != "regression":
            raise ValueError(
                f"target='state' needs setting='regression', received setting={task.setting!r}. Leave "
                "target out."
            )

    def published(self, task: "Task") -> Preset:
        return published_preset(500_000, CLIPNORM, activation_batch_size=100, tokens_per_draw=100_000)

    def quick(self, task: "Task") -> Preset:
        sizes = {"batches": 10, "batch_size": 64, "activation_batch_size": 64}
        sizes |= {"tokens": 12_800, "draws": 10, "tokens_per_draw": 640}
        return quick_preset(
            num_rules=2, tasks=3, seeds=1, steps=800, learning_rate=3e-3, clipnorm=CLIPNORM, **sizes
        )
