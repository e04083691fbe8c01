"""A stream's batches, made inside a compiled program, because no host feeds an accelerator fast enough."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.datasets import device_ops, philox
from modtf.datasets.plan import StreamPlan
from modtf.tasks.population import Population
from modtf.tasks.task import Task
from modtf.xla.switches import has_64_bits


class DeviceStream:
    """The batches of `modtf.stream`, from the same random bits, for any backend of Keras.

    Rules are the same as on the host. Floating-point numbers differ in the last bits, because compilers have
    their own logarithms, cosines and sums. Labels come from the device's own numbers. They may differ if an
    output lies within such a bit of the border of a class, or if two keys are that close.

    Args:
        task, batch_size, split, seed, **options: as in `modtf.stream`, except for `start_step`.

    Attributes:
        given: the arrays that differ between streams of one shape: "keys" [P, 4, 2], the arrays among the
            "options" by name, with "scale" [], and, with `rule_probs`, "thresholds" [K, R-1]. A compiled
            program may take them as arguments and serve all these streams.

    Raises:
        ValueError: if a value is out of range; or if the family makes its data on the host only.

    Example:
        >>> batches = DeviceStream(Task(num_rules=4), batch_size=8)
        >>> features, target = jax.jit(batches.make, static_argnums=1)(100, 5)  # batches 100 to 104
        >>> features["inputs"].shape, target.shape
        ((5, 8, 2), (5, 8))
    """

    def __init__(
        self,
        task: Task | Sequence[Task] | Population,
        batch_size: int = 256,
        split: str = "train",
        seed: int | Sequence[int] | None = None,
        **options: Any,
    ):
        self.population = Population.of(task, seed)
        self.plan = StreamPlan.of(self.population, device_ops, batch_size, split, **options)
        if not self.plan.data.runs_on_device:
            raise ValueError(
                f"The data of the family {self.population.family.name!r} cannot be made on a device, "
                f"because {type(self.plan.data).__name__} does not set runs_on_device. Choose data='host'."
            )
        keys = [[philox.words(int(key)) for key in fields] for fields in self.plan.keys]
        if "scale" in inspect.signature(self.plan.data.examples).parameters:
            self.plan.options["scale"] = np.array(self.plan.options.get("scale", 1.0), self.plan.dtype)
        arrays = {name: v for name, v in self.plan.options.items() if isinstance(v, np.ndarray)}
        self.given: dict[str, Any] = {"keys": np.array(keys), "options": arrays}
        if self.plan.thresholds is not None:
            self.given["thresholds"] = self.plan.thresholds

    @property
    def bytes_per_step(self) -> int:
        """Return the bytes of a batch of all members, with the uniform numbers that it is made from."""
        shapes = self.population.task.example_shapes(self.plan.num_tokens)
        numbers = self.plan.width + self.plan.num_tokens + sum(map(math.prod, shapes.values()))
        return 4 * len(self.population) * self.plan.batch_size * numbers

    def make(
        self, first: Any, count: int = 1, *, given: Any = None, member: Any = None, at_once: bool = False
    ) -> tuple[Any, Any]:
        """Make the batches first ... first + count - 1.

        Args:
            first: integer scalar, which may be traced.
            count: K.
            given: those of another stream of the same shape; by default this stream's own.
            member: integer scalar: make this member alone, with a members axis of one.
            at_once: whether every operation covers all members. This starts fewer operations and takes more
                memory, which suits an accelerator with few steps at once. JAX only; otherwise members are
                made in turn.

        Returns:
            Features and target, as in `modtf.stream`, with a leading axis [K, ...].

        Raises:
            ValueError: for "validation" and "test", which are made in float64, if JAX has no 64-bit numbers.
        """
        if self.plan.dtype == "float64" and not has_64_bits():
            raise ValueError(
                f"split={self.plan.data.split!r} needs float64, which JAX has only with JAX_ENABLE_X64=1 or "
                "in jax.enable_x64(True). Use one of them, or choose split='train'."
            )
        plan, given = self.plan, given or self.given
        keys = ops.convert_to_tensor(given["keys"])
        parameters = {name: ops.convert_to_tensor(value) for name, value in plan.parameters().items()}
        bank = {name: ops.convert_to_tensor(value) for name, value in plan.data.bank().items()}
        options = {**plan.options, **given["options"]}
        if member is not None:
            keys = ops.take(keys, member, axis=0)[None]
            parameters = {name: ops.take(value, member, axis=0)[None] for name, value in parameters.items()}
        steps = ops.cast(first, "int32") + ops.arange(count, dtype="int32")
        limits, uniforms = self._limits(given, steps), self._uniforms(keys[:, :2], steps)
        position = steps[:, None] * plan.batch_size + ops.arange(plan.batch_size, dtype="int32")
        position = ops.reshape(position, [-1])

        def made(each: Any) -> tuple[Any, ...]:
            of_rule, of_inputs, key, own = each
            return plan.make(position, (of_rule, of_inputs), limits, key, {**own, **bank}, options)

        members = (*uniforms, keys[:, 2:], parameters)
        if keys.shape[0] == 1:
            tensors = tuple(t[None] for t in made(keras.tree.map_structure(lambda t: t[0], members)))
        else:
            of_all = ops.vectorized_map if at_once else ops.map
            tensors = of_all(made, members)
        inputs, rule, target = (self._by_step(t, count) for t in tensors)
        if not self.population.has_axis and member is None:
            inputs, rule, target = inputs[:, :, 0], rule[:, :, 0], target[:, :, 0]
        return {"inputs": inputs, "rule": rule}, target

    def _uniforms(self, keys: Any, steps: Any) -> tuple[Any, Any]:
        """Return the uniform numbers of rules [P, K * B, N] and of inputs [P, K * B, width]."""
        plan, members = self.plan, keys.shape[0]
        seeds = philox.scramble(device_ops, keys[:, :, None], steps // plan.steps)  # [P, 2, K]

        def of(field: int, width: int) -> Any:
            size = plan.batch_size * width
            start = (steps % plan.steps) * size
            numbers = philox.uniforms(device_ops, [word[:, field] for word in seeds], start, size, plan.dtype)
            return ops.reshape(numbers, [members, -1, width])

        return of(0, plan.num_tokens), of(1, plan.width)

    def _limits(self, given: Any, steps: Any) -> Any:
        """Return the thresholds of every example [K * B, 1, R-1], or None."""
        if "thresholds" not in given:
            return None
        rows = ops.convert_to_tensor(given["thresholds"])
        rows = ops.take(rows, steps % rows.shape[0], axis=0)
        return ops.repeat(rows, self.plan.batch_size, axis=0)[:, None]

    def _by_step(self, made: Any, count: int) -> Any:
        """Move the steps first: [P, K * B, ...] -> [K, B, P, ...]."""
        made = ops.reshape(made, [made.shape[0], count, self.plan.batch_size, *made.shape[2:]])
        return ops.transpose(made, [1, 2, 0, *range(3, len(made.shape))])
