"""The description of a family of tasks. It needs no TensorFlow: data and architecture are lazy references."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from modtf.base.checks import check_choice
from modtf.tasks.condition import IID, Condition
from modtf.tasks.observed import Place, Probe
from modtf.tasks.option import Option as Option
from modtf.tasks.settings import SETTINGS
from modtf.tasks.variants import PUBLISHED, Variant

if TYPE_CHECKING:
    from modtf.tasks.protocol import Preset, Training
    from modtf.tasks.task import Task


class Family:
    """A kind of rule-based task. All other parts of modtf read only its description, a subclass in one file.

    The subclass sets the attributes, and defines its shapes and protocols. It names `data` and `architecture`
    without importing them, so that flags can be checked without TensorFlow.
    """

    name: str  # set by the registry
    title: str  # the name for readers
    data: Any  # a `modtf.datasets.families.base.RuleData`, or "package.module:Class"
    architecture: str  # the default architecture
    settings: ClassVar[tuple[str, ...]] = ("regression", "classification")
    options: ClassVar[tuple[Option, ...]] = ()
    is_sequence: ClassVar[bool] = True  # whether an example is a sequence of tokens, or one token
    training_length: ClassVar[int] = 10  # tokens of a training sequence, as published
    min_tokens: ClassVar[int] = 1  # of a sequence
    input_dtype: ClassVar[str] = "float32"  # of `inputs`; "uint8" images stay uint8 until the model
    #: whether inputs have the tokens' axis N. Otherwise they belong to a whole example, and its tokens are
    #: calls of modules
    inputs_by_token: ClassVar[bool] = True
    target_by_token: ClassVar[bool] = True  # or one target per example
    conditions: ClassVar[tuple[Condition, ...]]  # the first is that of training
    groups: ClassVar[tuple[str, ...]] = ()  # of conditions, in order; the group's mean has its name
    #: conditions that are measured on request, or by default for tasks with the option that they name
    more_conditions: ClassVar[tuple[Condition, ...]] = ()
    #: the out-of-distribution condition, or group of conditions, that tables and figures show first
    headline: ClassVar[str]
    #: setting -> performance measure, "loss" or "error", if it is not the setting's own
    performance: ClassVar[Mapping[str, str]] = {}
    variants: ClassVar[tuple[Variant, ...]] = PUBLISHED
    reference: ClassVar[str] = "modular"  # the variant with which others are compared
    oracle: ClassVar[str | None] = "gt_modular"  # the variant that knows the right module, if any
    #: the measures in the table of `modtf run`, in place of collapse and specialisation, and their note
    table: ClassVar[tuple[str, ...]] = ()
    table_note: ClassVar[str] = ""
    checkpoint: ClassVar[str] = "tail"  # the one in tables and figures: "tail", "last" or "best"

    def token_width(self, task: "Task") -> int:
        """F, the numbers per token in `inputs`. A family defines this, or `token_shape`."""
        return math.prod(self.token_shape(task))

    def token_shape(self, task: "Task") -> tuple[int, ...]:
        """Return the shape of a token in `inputs`, or of an example if not `inputs_by_token`."""
        return (self.token_width(task),)

    def num_tokens(self, task: "Task") -> int:
        """Tokens of a training example: N, or 1."""
        return self.training_length if self.is_sequence else 1

    def target_width(self, task: "Task") -> int | None:
        """Return the width of a target; None if it is one number without an axis."""
        return None

    def num_classes(self, task: "Task") -> int:
        """Return the number of classes C if the setting is "categorical"."""
        raise NotImplementedError

    def num_ids(self, task: "Task") -> int | None:
        """Return the number of ids if inputs are ids of tokens; None if they are other numbers."""
        return None

    def token_names(self, task: "Task") -> tuple[str, ...] | None:
        """Return the texts of the ids of tokens; None if they are numbered."""
        return None

    def fixed_rules(self, options: Mapping[str, Any]) -> int | None:
        """R, if the family or a task's options fix it; None if the task sets it."""
        return None

    def rule_names(self, task: "Task") -> tuple[str, ...] | None:
        """Return the rules' names for readers; None if they are numbered."""
        return None

    def places(self, task: "Task") -> Mapping[str, Place] | None:
        """Return the routed layers of the family's models by name; None for a single one."""
        return None

    def probes(self, task: "Task") -> tuple[Probe, ...]:
        """Return the additional accumulations of the final evaluation."""
        return ()

    def check(self, task: "Task") -> None:
        """Raise `ValueError` if a combination of options is invalid."""

    def rule_probs(self, task: "Task") -> tuple[float, ...] | None:
        """Return the rules' frequencies in training [R]; None if all rules are equally frequent."""
        return None

    def check_variant(self, task: "Task", variant: str) -> None:
        """Raise `ValueError` if a variant, or router, has no meaning for a task."""

    def check_training(self, task: "Task", training: "Training") -> None:
        """Raise `ValueError` if tasks cannot be trained with these settings."""

    def check_model(self, task: "Task", options: Mapping[str, Any]) -> None:
        """Raise `ValueError` if the family's architecture cannot have these options on this task."""

    def published(self, task: "Task") -> "Preset":
        """Return the published protocol."""
        raise NotImplementedError

    def published_training(self, task: "Task", variant: str) -> Mapping[str, Any]:
        """Return the fields of `Training` in which a variant was trained unlike the others as published."""
        return {}

    def quick(self, task: "Task") -> "Preset":
        """Return a protocol for a first result, in minutes on two cores."""
        raise NotImplementedError

    # The rest follows from these.

    def smoke(self, task: "Task") -> "Preset":
        """Return the smallest preset that runs everything: training, evaluations, the table, all figures.

        It is `quick` with a quarter of the width (at least 4), two tasks, a few steps, and evaluations of a
        few examples under the training condition and the headline condition. Every rule occurs among the
        tokens for the activation matrix. Its numbers mean nothing.
        """
        quick = self.quick(task)
        batch_size = min(quick.protocol.training.batch_size, 64)
        headline = tuple(c.name for c in self.conditions if self.headline in (c.name, c.group))
        training = replace(quick.protocol.training, steps=20, batch_size=batch_size, evaluations=2)
        evaluation = replace(
            quick.protocol.evaluation, batches=1, batch_size=batch_size, activation_batch_size=batch_size,
            tokens=max(batch_size, 32 * quick.num_rules), draws=5, tokens_per_draw=batch_size,
            conditions=headline,
        )  # fmt: skip
        protocol = replace(quick.protocol, training=training, evaluation=evaluation)
        return replace(quick, width=max(4, quick.width // 4), tasks=2, seeds=1, protocol=protocol)

    def variant(self, name: str) -> Variant:
        """Return the variant of a name. A name that the family lacks is a registered router or model."""
        return next((one for one in self.variants if one.name == name), None) or Variant(name)

    def network(self, variant: str, architecture: str | None = None) -> str:
        """Return the name of a variant's network: `architecture` if given, else its own, else the family's.

        Raise `ValueError` if the variant has its own network and `architecture` is another one."""
        own = self.variant(variant).architecture
        if own and architecture not in (None, own):
            raise ValueError(
                f"architecture={architecture!r}: the variant {variant!r} fixes architecture={own!r}. Leave "
                "it out."
            )
        return architecture or own or self.architecture

    def performance_measure(self, setting: str) -> str:
        """Return the performance measure: "loss" or "error"."""
        return self.performance.get(setting) or SETTINGS[setting].performance

    def condition(self, name: str) -> Condition:
        """Return the condition of a name. Raise `ValueError` if there is none."""
        known = {condition.name: condition for condition in (*self.conditions, *self.more_conditions)}
        check_choice("condition", name, known)
        return known[name]

    @property
    def all_names(self) -> tuple[str, ...]:
        """The names of all conditions and groups, in the order of tables."""
        more = (condition.name for condition in self.more_conditions)
        return (*self.condition_names, *self.groups, *more)

    @property
    def condition_names(self) -> tuple[str, ...]:
        return tuple(condition.name for condition in self.conditions)

    @property
    def while_training(self) -> tuple[str, ...]:
        """The conditions that are measured during training, too."""
        return (IID, *(c.name for c in self.conditions if c.while_training and c.name != IID))

    def complete(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options of a task, with defaults filled in (also for None). Raise `ValueError` if one is
        invalid."""
        known = {option.name: option for option in self.options}
        for name, value in options.items():
            if name not in known:
                raise ValueError(
                    f"{name}={value!r} has no meaning for arch={self.name!r}, "
                    f"whose options are: {', '.join(known) or 'none'}. Leave it out."
                )
        return {
            name: option.default if options.get(name) is None else option.check(options[name])
            for name, option in known.items()
        }
