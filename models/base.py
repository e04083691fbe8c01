"""The boundary that all architectures share: from [B, P, ...] to feature-major tensors and back."""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from modtf.datasets.streaming import task_family
from modtf.models.initial import InitialWeights
from modtf.models.routers import ROUTERS
from modtf.models.routers.base import Router, RouterInput
from modtf.task import Task


class ModularModel(keras.Model):
    """A model of a task, or of a population of tasks; `modtf.build` makes one.

    Args:
        tasks: the P tasks (dicts, when read back from a file).
        seeds: the P seeds.
        variant: a name of `ROUTERS`.
        width: e.
        population: whether features have a members axis (else P = 1).
        dtype: "float32", "float64" or a Keras dtype policy.

    Call arguments:
        features: `{"inputs": [B, P, (N,) F], "rule": int [B, P, (N,)]}`; no P axis without `population`.

    Returns:
        `{"target": [B, P, (N,)], "activation": [B, P, (N,) M]}`; the target is a logit for classification.
    """

    def __init__(
        self,
        tasks: Sequence[Task | dict],
        seeds: Sequence[int],
        variant: str,
        width: int,
        population: bool = False,
        dtype: Any = None,
        name: str | None = None,
        **options: Any,
    ):
        super().__init__(name=name or variant, dtype=dtype)
        self.tasks = [task if isinstance(task, Task) else Task(**task) for task in tasks]
        self.seeds, self.variant, self.width = list(seeds), variant, width
        self.population, self.options = population, options
        self.num_members, self.num_rules = len(self.tasks), self.tasks[0].num_rules
        family = task_family(self.tasks)
        self.is_sequence, self.token_width = family.is_sequence, family.token_width
        self.target_width = family.target_width
        self.initial = InitialWeights(self.tasks, self.seeds)
        self.router_class: type[Router] = ROUTERS[variant]
        self.num_modules = self.router_class.num_modules(self.num_rules)
        known = list(inspect.signature(self.make_layers).parameters)
        for option in options:
            if option not in known:
                raise ValueError(
                    f"{option}={options[option]!r} is no option of {type(self).__name__}; "
                    f"its options: {', '.join(known) or 'none'}."
                )
        self.make_layers(**options)
        self.built = True

    # What an architecture writes.

    make_layers: Callable[..., None]  # creates the layers; its keyword arguments are the `options`

    def forward(self, inputs, rule):
        """Inputs [P, F, N, B] and one-hot rules [P, R, N, B] -> outputs [P, O, N, B], p [P, M, N, B]."""
        raise NotImplementedError

    def make_router(self, offered: RouterInput) -> Router:
        return self.router_class(self.initial, self.num_rules, offered, dtype=self.dtype_policy)

    # The boundary.

    def call(self, features):
        inputs, rule = ops.convert_to_tensor(features["inputs"]), ops.convert_to_tensor(features["rule"])
        if not self.population:
            inputs, rule = inputs[:, None], rule[:, None]
        if not self.is_sequence:
            inputs, rule = inputs[:, :, None], rule[:, :, None]
        inputs = ops.cast(ops.transpose(inputs, [1, 3, 2, 0]), self.compute_dtype)
        rules = ops.arange(self.num_rules, dtype=rule.dtype)[None, :, None, None]
        one_hot = ops.cast(ops.transpose(rule, [1, 2, 0])[:, None] == rules, self.compute_dtype)
        outputs, activation = self.forward(inputs, one_hot)
        target = self._to_boundary(outputs)
        return {
            "target": target if self.target_width else target[..., 0],
            "activation": self._to_boundary(activation),
        }

    def _to_boundary(self, tensor):
        """[P, F, N, B] -> [B, (P,) (N,) F]."""
        tensor = ops.transpose(tensor, [3, 0, 2, 1])
        if not self.is_sequence:
            tensor = tensor[:, :, 0]
        return tensor if self.population else tensor[:, 0]

    def build(self, input_shape=None):
        """Nothing is left to build: every shape is known from the task."""

    def one_member(self) -> "ModularModel":
        """A population of one, the first member's, with its initial weights."""
        config = self.get_config()
        return type(self)(**{**config, "tasks": config["tasks"][:1], "seeds": self.seeds[:1]})

    def get_config(self) -> dict[str, Any]:
        return {
            "tasks": [task.to_dict() for task in self.tasks],
            "seeds": self.seeds,
            "variant": self.variant,
            "width": self.width,
            "population": self.population,
            "dtype": self.dtype_policy.name,
            "name": self.name,
            **self.options,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "ModularModel":
        return cls(**config)

    @property
    def num_parameters(self) -> int:
        """Trainable numbers of one member."""
        return sum(math.prod(variable.shape) for variable in self.trainable_variables) // self.num_members
