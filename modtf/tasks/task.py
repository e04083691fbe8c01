"""The task: a family, a setting, rules, and the family's options."""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from modtf.base.checks import check_choice, check_integer
from modtf.tasks.condition import SETTINGS, Condition
from modtf.tasks.families import FAMILIES, Family
from modtf.tasks.observed import Place

SPLITS = ("train", "validation", "test")
FIELDS = ("arch", "setting", "num_rules", "data_seed")


@dataclass(frozen=True, init=False, repr=False)
class Task:
    """A rule-based task. Every token has one of `num_rules` rules, and the rule determines its label.

    Args:
        arch: the name of the family, which sets the rules and the default network: mlp, mha, rnn,
            vqa_mnist, sqoop, corruptions or a registered one.
        setting: "regression"; "classification", whether the output is at least 0; or another setting of the
            family, see `modtf.tasks.condition`. The default is the family's first.
        num_rules: R, at least 2; optional if the family fixes it.
        data_seed: the number of the task within its type; 0-4 are the published ones.
        **options: the family's own options, such as `search="v2"` (mha) or `target="state"` (rnn). They are
            attributes of the task.

    Raises:
        ValueError: if a value is unknown, or a combination is invalid.

    Example:
        >>> Task(setting="classification", num_rules=8, data_seed=2).name
        'mlp_classification_r8_task2'
    """

    arch: str
    setting: str
    num_rules: int
    data_seed: int
    options: tuple[tuple[str, Any], ...] = field(default=())

    def __init__(
        self,
        arch: str | None = None,
        setting: str | None = None,
        num_rules: int | None = None,
        data_seed: int = 0,
        **options: Any,
    ):
        arch = next(iter(FAMILIES)) if arch is None else arch
        check_choice("arch", arch, FAMILIES)
        family = FAMILIES[arch]
        setting = family.settings[0] if setting is None else setting
        check_choice("setting", setting, family.settings)
        complete = family.complete(options)
        fixed = family.fixed_rules(complete)
        if num_rules is None:
            num_rules = fixed or 2
        if fixed is not None and num_rules != fixed:
            raise ValueError(
                f"num_rules={num_rules!r} is not valid; expected {fixed} for arch={arch!r}. Leave it out."
            )
        seed = check_integer("data_seed", data_seed, 0, 2**32 - 1)  # the range of NumPy's RandomState
        numbers = check_integer("num_rules", num_rules, 2), seed
        values = arch, setting, *numbers, tuple(complete.items())
        for name, value in zip((*FIELDS, "options"), values, strict=True):
            object.__setattr__(self, name, value)
        family.check(self)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for option, value in self.__dict__.get("options", ()):
                if option == name:
                    return value
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"Task({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    @property
    def family(self) -> Family:
        """Return the description of the task's family."""
        return FAMILIES[self.arch]

    @property
    def named_options(self) -> dict[str, Any]:
        """The options that identify the task: those always named, and those not at their default."""
        options = dict(self.options)
        return {
            option.name: options[option.name]
            for option in self.family.options
            if option.always_named or options[option.name] != option.default
        }

    @property
    def kind(self) -> str:
        """The family, options and setting: "mlp_regression", "mha_v2_classification", ..."""
        shown = {option.name: option for option in self.family.options}
        options = (shown[name].show(value) for name, value in self.named_options.items())
        return "_".join([self.arch, *options, self.setting])

    @property
    def name(self) -> str:
        """A readable label, unique among tasks: `mha_v2_regression_r8_task0`."""
        return f"{self.kind}_r{self.num_rules}_task{self.data_seed}"

    @property
    def is_sequence(self) -> bool:
        """Return whether an example is a sequence of tokens or a single token."""
        return self.family.is_sequence

    def condition(self, name: str) -> Condition:
        """Return the condition of a name. Raise `ValueError` if the task cannot be tested under it."""
        condition = self.family.condition(name)
        if condition.of_option is not None and condition.of_option not in self.named_options:
            raise ValueError(
                f"condition={name!r} has a meaning only if {condition.of_option} is set, and {self.name} has "
                f"its default. Set {condition.of_option}, or leave the condition out."
            )
        return condition

    @property
    def token_width(self) -> int:
        """The number F of values per token in `inputs`."""
        return self.family.token_width(self)

    @property
    def target_width(self) -> int | None:
        """The width of a token's target, None for a plain number."""
        return self.family.target_width(self)

    @property
    def output_width(self) -> int | None:
        """The model's numbers per target: None for a plain number, else `target_width` or the classes."""
        return SETTINGS[self.setting].output_width(self)

    @property
    def token_shape(self) -> tuple[int, ...]:
        """The shape of a token in `inputs`, or of an example if the family's inputs are not by token."""
        return tuple(self.family.token_shape(self))

    @property
    def input_dtype(self) -> str:
        """Return the dtype of `inputs`."""
        return self.family.input_dtype

    @property
    def target_dtype(self) -> str:
        """Return the dtype of targets: "int32" for classes, else "float32"."""
        return SETTINGS[self.setting].target_dtype

    def example_shapes(self, num_tokens: int | None = None) -> dict[str, tuple[int, ...]]:
        """Return the shapes of "inputs", "rule" and "target" of one example, without axes of batch or
        members.

        Args:
            num_tokens: N of a sequence; by default the length in training.

        Example:
            >>> Task().example_shapes()
            {'inputs': (2,), 'rule': (), 'target': ()}
        """
        family = self.family
        tokens = (num_tokens or family.num_tokens(self),) if self.is_sequence else ()
        target = () if self.target_width is None else (self.target_width,)
        return {
            "inputs": (*(tokens if family.inputs_by_token else ()), *self.token_shape),
            "rule": tokens,
            "target": (*(tokens if family.target_by_token else ()), *target),
        }

    @property
    def performance(self) -> str:
        """The performance measure: "loss" or "error"."""
        return self.family.performance_measure(self.setting)

    @property
    def places(self) -> dict[str, Place]:
        """The routed layers of its models by name; "" is the name of an unnamed single layer."""
        only = {"": Place("", self.num_rules, self.family.rule_names(self))}
        places = dict(self.family.places(self) or only)
        for name, place in places.items():
            if name != place.name:
                raise ValueError(
                    f"The family {self.arch!r} has the place {place.name!r} under the name {name!r}; "
                    "expected the same name twice."
                )
        return places

    @property
    def shape_key(self) -> "Task":
        """The task without the values that may differ between members of one population."""
        return self.replace(data_seed=0)

    def replace(self, **changes: Any) -> "Task":
        """Return a copy with other values: `task.replace(data_seed=1)`."""
        return Task(**{**self.to_dict(), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict; `Task(**task.to_dict())` is the task again."""
        later = {option.name: option.default for option in self.family.options if option.later}
        options = {name: value for name, value in self.options if later.get(name, ...) != value}
        return {**{name: getattr(self, name) for name in FIELDS}, **options}

    def identity(self) -> dict[str, Any]:
        """Return the scientific definition of the task, which enters every random number.

        An option at its default counts only if it is always named. The numbers of old tasks then stay the
        same when a family gains an option. For the same reason "search" is in every identity. An option that
        is not `keyed` never counts.
        """
        values = {name: getattr(self, name) for name in FIELDS}
        keyed = {option.name for option in self.family.options if option.keyed}
        named = {name: value for name, value in self.named_options.items() if name in keyed}
        return {**values, "search": None, **named}


def science_hash(value: Any, digest_size: int = 8) -> str:
    """Return a stable hexadecimal hash of JSON-able `value`, equal on every machine and Python."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=digest_size).hexdigest()


def random_key(task: Task, seed: int, *purpose: Any) -> int:
    """Return a signed 64-bit key for a counter-based generator (Philox).

    Different tasks, seeds, splits or purposes have different keys (blake2b), so no two streams share a random
    number. The purpose is split and field for data, and "weights" and the path for weights.
    """
    digest = science_hash([task.identity(), seed, *purpose], digest_size=8)
    return int.from_bytes(bytes.fromhex(digest), "big", signed=True)
