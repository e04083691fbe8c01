"""Measures a trained model: `modtf.evaluate` and what the training callbacks share with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modtf import metrics
from modtf.accumulators import ActivationSums, Forward, PerformanceSums
from modtf.cell import Evaluation
from modtf.datasets.streaming import stream, task_family
from modtf.losses import SettingLoss
from modtf.models.base import ModularModel
from modtf.task import SPLITS, TRAINING_LENGTH, Task, as_members, check_choice


@dataclass
class Scores:
    """What an evaluation found; P members.

    Attributes:
        rows: (measure, scale, seq_len or None) -> values [P].
        activation: the activation matrices [P, R, M], float64.
    """

    rows: dict[tuple[str, float, int | None], np.ndarray]
    activation: np.ndarray

    def member(self, index: int) -> dict[str, float]:
        """One member as a flat dict: "loss", "loss_scale2", "loss_len30_scale2", "alignment", ..."""
        flat = {}
        for (measure, scale, seq_len), values in self.rows.items():
            length = "" if seq_len in (None, TRAINING_LENGTH) else f"_len{seq_len}"
            flat[measure + length + ("" if scale == 1.0 else f"_scale{scale:g}")] = float(values[index])
        return flat


class Evaluator:
    """Measures a model on streams of its task, on the device, compiled once.

    Args:
        model: any `keras.Model` from features to `{"target", "activation"}`.
        task: its task, or a population's.
        sizes: how much data to read.
        split: which stream; evaluation never touches "train".
        seed: of the evaluation stream, the same for all members.
    """

    def __init__(
        self,
        model: keras.Model,
        task: Task | Sequence[Task],
        sizes: Evaluation,
        split: str = "test",
        seed: int = 0,
    ):
        self.tasks, _, self.population = as_members(
            task, seed if isinstance(task, Task) else [seed] * len(task)
        )
        self.task, self.sizes, self.split = self.tasks[0], sizes, split
        self.seed: Any = [seed] * len(self.tasks) if self.population else seed
        self.family = task_family(self.tasks)
        self.num_tokens = TRAINING_LENGTH if self.family.is_sequence else 1
        self._datasets: dict[Any, Any] = {}
        check_choice("split", split, SPLITS)
        num_modules = count_modules(model, task)
        router = getattr(model, "router", None)
        # the use q = p @ A is exact where p is a function of the token alone
        self.exact_usage = not self.family.is_sequence or getattr(router, "sees_only_rule", False)
        rows = max(self.task.num_rules, 1 if self.exact_usage else sizes.draws)
        self.performance = PerformanceSums(self.task.setting, len(self.tasks), self.population)
        self.activation = ActivationSums(len(self.tasks), rows, num_modules, self.population)
        self._test_functions: dict[Any, Any] = {}
        self.forward = Forward(model)
        self.forward.compile(
            loss={"target": SettingLoss(self.task.setting)},
            metrics={"target": self.performance, "activation": self.activation},
            jit_compile=model.jit_compile if model.compiled else "auto",
        )

    def run(self) -> Scores:
        """Performance at every scale and length, the activation matrix and its measures."""
        rows: dict[tuple[str, float, int | None], np.ndarray] = {}
        training_length = TRAINING_LENGTH if self.family.is_sequence else None
        lengths = dict.fromkeys([training_length, *(self.sizes.lengths if self.family.is_sequence else ())])
        for seq_len in lengths:
            for scale in self.sizes.scales:
                rows |= self._performance(scale, seq_len)
        activation = self.activation_matrix()
        usage = None if self.exact_usage else self._usage()
        rows |= {
            (name, 1.0, training_length): values
            for name, values in metrics.measure_population(activation, usage=usage).items()
        }
        return Scores(rows, activation)

    def activation_matrix(self) -> np.ndarray:
        """A [P, R, M], float64, from `sizes.tokens` tokens."""
        steps = -(-self.sizes.tokens // (self.sizes.batch_size * self.num_tokens))
        self._evaluate(steps)
        return self._matrix(self.task.num_rules)

    def _usage(self) -> np.ndarray:
        """Module use [P, K, M] under each of K rule distributions."""
        draws = self.sizes.draws
        per_draw = -(-self.sizes.tokens_per_draw // (self.sizes.batch_size * self.num_tokens))
        probs = metrics.rule_distributions(self.task.num_rules, draws)
        self._evaluate(per_draw * draws, draws=draws, rule_probs=probs)
        return self._matrix(draws)

    def _matrix(self, rows: int) -> np.ndarray:
        sums, counts = (v.numpy()[:, :rows] for v in (self.activation.sums, self.activation.counts))
        return metrics.from_counts(sums, counts)

    def _performance(self, scale: float, seq_len: int | None) -> dict:
        self._evaluate(self.sizes.batches, scale=scale, seq_len=seq_len)
        batches = float(self.performance.batches.numpy())
        found = {("loss", scale, seq_len): self.performance.loss.numpy() / batches}
        if self.task.setting == "classification":
            error = self.performance.error.numpy()
            found["error", scale, seq_len] = 100.0 * error / batches
        return found

    def _evaluate(self, steps: int, draws: int | None = None, **options: Any) -> None:
        """Accumulates `steps` batches of a stream with these options."""
        key = (steps, draws, options.get("scale"), options.get("seq_len"))
        if key not in self._datasets:  # building one costs more than a small evaluation
            self._datasets[key] = self._dataset(steps, draws, **options)
        dataset = self._datasets[key]
        # Keras keeps one test function and would retrace it with an unknown length, which XLA cannot unroll
        shape = dataset.element_spec[1]["target"].shape
        self.forward.test_function = self._test_functions.get(shape)
        self.forward.evaluate(dataset, verbose=0)
        self._test_functions[shape] = self.forward.test_function

    def _dataset(self, steps: int, draws: int | None, **options: Any):
        """The row of a token is its rule, or the number of its draw."""

        def with_rows(index, element):
            features, target = element
            row = features["rule"]
            if draws is not None:
                row = row * 0 + tf.cast(index % draws, row.dtype)
            return features, {"target": target, "activation": row}

        tasks = self.tasks if self.population else self.task
        dataset = stream(tasks, self.sizes.batch_size, self.split, self.seed, **options)
        return dataset.enumerate().map(with_rows).take(steps)


def count_modules(model: keras.Model, task: Task | Sequence[Task]) -> int:
    """The number of modules M of a model, which a user's model tells, and is built by, on two examples.

    Raises:
        ValueError: if the model is of another task, or does not return what it must.
    """
    if isinstance(model, ModularModel):
        tasks, _, population = as_members(task, 0 if isinstance(task, Task) else [0] * len(task))
        shapes = [(t[0].shape_key.name, len(t)) for t in (model.tasks, tasks)]
        if shapes[0] != shapes[1] or model.population != population:
            raise ValueError(
                f"The model was built for {_describe(model.tasks, model.population)}, received "
                f"{_describe(tasks, population)}. Give the task, or the list of tasks, that it was built for."
            )
        return model.num_modules
    seed: Any = 0 if isinstance(task, Task) else [0] * len(task)
    features, _ = next(iter(stream(task, 2, "validation", seed)))
    outputs = model(features)
    if not isinstance(outputs, dict) or not {"target", "activation"} <= set(outputs):
        received = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(
            "A model must return a dict with the keys 'target' [B, ...] and 'activation' [B, ..., M], "
            f"received {received}. Wrap your model in one whose call returns both."
        )
    return int(outputs["activation"].shape[-1])


def _describe(tasks: Sequence[Task], population: bool) -> str:
    return f"a list of {len(tasks)} tasks like {tasks[0].name}" if population else tasks[0].name


def evaluate(
    model: keras.Model,
    task: Task | Sequence[Task],
    *,
    sizes: Evaluation | None = None,
    split: str = "test",
    seed: int = 0,
) -> Any:
    """Measures a model in and out of distribution, and its collapse and specialisation.

    Args:
        model: any `keras.Model` that takes features and returns `{"target", "activation"}`.
        task: its task, or the list of tasks of a population.
        sizes: how much data to read; `Evaluation()`, the published sizes, by default.
        split: "test" or "validation".
        seed: of the evaluation stream.

    Returns:
        A dict of floats (a list of dicts, one per member, for a population): "loss" (and "error" in
        percent for classification), each also with the suffixes "_scale2" (inputs times 2), "_len30"
        (sequences of 30) and "_len30_scale2"; and the measures of `modtf.metrics`.

    Example:
        >>> scores = modtf.evaluate(model, task)
        >>> scores["loss"], scores["loss_scale2"], scores["alignment"]
    """
    evaluator = Evaluator(model, task, sizes or Evaluation(), split, seed)
    scores = evaluator.run()
    members = [scores.member(i) for i in range(len(evaluator.tasks))]
    return members if evaluator.population else members[0]
