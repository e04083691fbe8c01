"""Measures a trained model: `modtf.evaluate` and what the training callbacks share with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from modtf import metrics
from modtf.evaluation.accumulators import Accumulator, ActivationSums, PerformanceSums
from modtf.cell import Evaluation
from modtf.datasets.streaming import stream, task_family
from modtf.evaluation.outputs import count_modules
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
        members = len(self.tasks)
        self.performance = PerformanceSums(self.task.setting, members, self.population)
        self.activation = ActivationSums(members, rows, num_modules, self.population)
        self._of_target = Accumulator(model, "target", self.performance)
        self._of_activation = Accumulator(model, "activation", self.activation)

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
        self._accumulate(self._of_activation, steps)
        return self._matrix(self.task.num_rules)

    def _usage(self) -> np.ndarray:
        """Module use [P, K, M] under each of K rule distributions."""
        draws = self.sizes.draws
        per_draw = -(-self.sizes.tokens_per_draw // (self.sizes.batch_size * self.num_tokens))
        probs = metrics.rule_distributions(self.task.num_rules, draws)
        self._accumulate(self._of_activation, per_draw * draws, draws=draws, rule_probs=probs)
        return self._matrix(draws)

    def _matrix(self, rows: int) -> np.ndarray:
        sums, counts = (v.numpy()[:, :rows] for v in (self.activation.sums, self.activation.counts))
        return metrics.from_counts(sums, counts)

    def _performance(self, scale: float, seq_len: int | None) -> dict:
        self._accumulate(self._of_target, self.sizes.batches, scale=scale, seq_len=seq_len)
        batches = float(self.performance.batches.numpy())
        found = {("loss", scale, seq_len): self.performance.loss.numpy() / batches}
        if self.task.setting == "classification":
            error = self.performance.error.numpy()
            found["error", scale, seq_len] = 100.0 * error / batches
        return found

    def _accumulate(
        self, accumulator: Accumulator, steps: int, draws: int | None = None, **options: Any
    ) -> None:
        """Accumulates `steps` batches of a stream with these options."""
        key = (accumulator, steps, draws, options.get("scale"), options.get("seq_len"))
        if key not in self._datasets:  # building one costs more than a small evaluation
            self._datasets[key] = self._dataset(accumulator.output, steps, draws, **options)
        accumulator.run(self._datasets[key])

    def _dataset(self, output: str, steps: int, draws: int | None, **options: Any):
        """(features, what the metric of an output needs): the target, or the row of every token, which
        is its rule or the number of its draw."""

        def needed(index, element):
            features, target = element
            if output == "target":
                return features, target
            row = features["rule"]
            return features, row if draws is None else row * 0 + tf.cast(index % draws, row.dtype)

        tasks = self.tasks if self.population else self.task
        dataset = stream(tasks, self.sizes.batch_size, self.split, self.seed, **options)
        return dataset.enumerate().map(needed).take(steps)


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
