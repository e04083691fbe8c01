"""Families of tasks, their options and variants. No TensorFlow: data and architectures are references."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from modtf.base.checks import (
    check_attributes,
    check_choice,
    check_integer,
    check_name,
    check_number,
    check_options,
    is_number,
)
from modtf.tasks.condition import IID, SETTINGS, Condition
from modtf.tasks.observed import Place, Probe

if TYPE_CHECKING:
    from modtf.tasks.protocol import Preset, Training
    from modtf.tasks.task import Task


@dataclass(frozen=True)
class Option:
    """A choice that a family leaves to its tasks, in addition to setting, rules and data seed.

    It has either `choices`, or the bounds `low` and `high` of a number.
    """

    name: str
    default: Any
    description: str  # for --help
    choices: tuple[Any, ...] | None = None
    low: float = 0.0
    high: float = float("inf")
    #: whether the option always enters the task's name and random numbers, or only if it is not the default.
    #: In the latter case a family may gain an option without changing its old tasks
    always_named: bool = False
    #: whether the option enters the random numbers. False: tasks that differ in it alone have the same
    #: examples and initial weights, so that they can be compared in pairs
    keyed: bool = True
    #: whether a family gained the option after results were published. At its default it is then absent from
    #: `Task.to_dict`, so that old cells keep their hashes
    later: bool = False
    integer: bool = False  # whether a number must be whole

    def __post_init__(self) -> None:
        check_name("an option", self.name)
        kinds = dict.fromkeys(("always_named", "keyed", "later", "integer"), bool)
        check_attributes(f"The option {self.name!r}", self, description=str, **kinds)
        what, choices = f"The option {self.name!r} has", self.choices
        several = isinstance(choices, tuple | list) and bool(choices)
        if choices is not None and not (several and all(isinstance(c, str) or is_number(c) for c in choices)):
            raise ValueError(f"{what} choices={choices!r}; expected several texts or numbers, or None.")
        if not is_number(self.low) or not is_number(self.high) or not self.low < self.high:
            raise ValueError(f"{what} low={self.low!r} and high={self.high!r}; expected numbers, low < high.")
        try:
            object.__setattr__(self, "default", self.check(self.default))  # 1 and 1.0 are one task, one hash
        except ValueError as error:
            raise ValueError(f"{what} a default that is not valid: {error}") from error

    def check(self, value: Any) -> Any:
        """Return the value. Raise `ValueError` unless it is allowed."""
        if self.choices is None and self.integer:
            whole = int(value) if isinstance(value, float) and value.is_integer() else value
            low = math.ceil(self.low) if math.isfinite(self.low) else None
            high = math.floor(self.high) if math.isfinite(self.high) else None
            return check_integer(self.name, whole, -(2**63) if low is None else low, high)
        if self.choices is None:
            return check_number(self.name, value, self.low, self.high)
        check_choice(self.name, value, self.choices)
        return next(choice for choice in self.choices if choice == value)  # not an equal NumPy number

    def show(self, value: Any) -> str:
        """Return the value as a task's name shows it: "v2", "noise0.1"."""
        if isinstance(value, str):
            return value
        short = f"{value:g}"
        return self.name + (short if float(short) == value else repr(value))


TRAINER = "modtf.training.plain:plain"  # the default trainer
ROUTER = "router."  # prefix of a router's options among a model's
RANDOM = "random"  # the row of random routing in tables and figures, which no variant may have


@dataclass(frozen=True)
class Variant:
    """The definition of a variant: the model and trainer of a name.

    Args:
        name: in flags, cells and results.
        title: the name for readers; by default `name`.
        router: the registered router, or registered model, to use; by default the one of the same name.
        model: fixed options, the architecture's by their names and the router's as "router.NAME". Callers
            cannot change them.
        trainer: a function of a context, see `modtf.training.trainer`, or a lazy reference
            "package.module:function" to one. The default trains on the "train" stream of the task, from start
            to end, after a warm start of the router if requested.
        by_default: whether commands and studies run it by default.
        architecture: the name of its network; by default the family's.

    Example:
        >>> Variant("two_of_all", "2 of all", router="top_k", model={"router.k": 2}).router
        'top_k'
    """

    name: str
    title: str = ""
    router: str = ""
    model: Mapping[str, Any] | None = None
    trainer: Any = TRAINER
    by_default: bool = True
    architecture: str = ""

    def __post_init__(self) -> None:
        check_name("a variant", self.name)
        if self.name == RANDOM:
            raise ValueError(
                f"A variant, router or model cannot have the name {RANDOM!r}, which tables and figures give "
                "to random routing. Choose another name."
            )
        object.__setattr__(self, "title", self.title or self.name)
        object.__setattr__(self, "router", self.router or self.name)
        what = f"The variant {self.name!r}"
        check_attributes(what, self, title=str, router=str, architecture=str)
        object.__setattr__(self, "model", check_options(f"{what}: model", self.model or {}))
        if not (isinstance(self.trainer, str) or callable(self.trainer)):
            raise ValueError(
                f'{what} has trainer={self.trainer!r}; expected a function or "module:function".'
            )

    def options(self, router: Mapping[str, Any], model: Mapping[str, Any]) -> tuple[dict, dict]:
        """Return the options of router and model, including those that the variant fixes. Raise `ValueError`
        if a fixed option is given."""
        asked = {**{ROUTER + name: value for name, value in router.items()}, **model}
        fixed: Mapping[str, Any] = self.model or {}
        for name in asked:
            if name in fixed:
                raise ValueError(
                    f"{name}={asked[name]!r}: the variant {self.name!r} fixes {name}={fixed[name]!r}. Leave "
                    "it out."
                )
        of_router = {n.removeprefix(ROUTER): v for n, v in fixed.items() if n.startswith(ROUTER)}
        of_model = {n: v for n, v in fixed.items() if not n.startswith(ROUTER)}
        return {**of_router, **router}, {**of_model, **model}


#: from least to most informed: the default of commands and studies
PUBLISHED = tuple(map(Variant, ("monolithic", "modular", "modular_op", "gt_modular")))


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
