"""Measures a trained model; `modtf.evaluate` and the training callbacks share it."""

import copy
from typing import Any

import keras
import numpy as np

from modtf.checks import check_choice
from modtf.evaluation.accumulate import Accumulator
from modtf.evaluation.accumulators import ActivationSums, PerformanceSums
from modtf.evaluation.batches import evaluation_batches
from modtf.evaluation.data_place import choose_place
from modtf.evaluation.measures import measure_members, rates
from modtf.evaluation.outputs import count_modules, failures_explained
from modtf.evaluation.scores import Rows, Scores
from modtf.families import IID
from modtf.models.routers.base import Router
from modtf.population import Population
from modtf.protocol import Evaluation
from modtf.task import SPLITS


class Evaluator:
    """Measures a model on streams of its tasks, on the device, compiled once.

    Args:
        model: any `keras.Model` from features to `{"target", "activation"}`, or `{"target"}` alone, which is
            measured as one module: by performance.
        population: the tasks it was made for; their seeds are not used.
        evaluation: how much data to read, and under which conditions.
        split: which stream; evaluation never touches "train".
        seed: of the evaluation stream, the same for all members.
        data: where it is made, "host", "device" or "auto" (see `choose_place`).

    Raises:
        ValueError: on a model of another task or with other outputs, an unknown split or condition.
    """

    def __init__(
        self,
        model: keras.Model,
        population: Population,
        evaluation: Evaluation,
        split: str = "test",
        seed: int = 0,
        data: str = "auto",
    ):
        self.place = choose_place(data, population.family)
        self.model, self.population = model, population.with_seed(seed)
        found = count_modules(model, population)
        self.num_modules, self.says_activation = found or 1, found is not None
        router = getattr(model, "router", None)
        self.router = router if isinstance(router, Router) else None
        # the use q = p @ A is exact where p is a function of the token alone, and tokens come one by one
        self.exact_usage = (
            not (population.family.is_sequence or (self.router is not None and self.router.sees_batch))
            or not self.says_activation
            or (self.router is not None and self.router.depends_only_on_rule)
        )
        #: name of what the router adds to the loss, None if nothing
        self.penalty_name = self.router.penalty_name if self.router is not None else None
        penalty = self.router.penalty if self.router is not None and self.penalty_name else None
        draws = 1 if self.exact_usage else evaluation.draws
        self.performance = PerformanceSums(self.population)
        self.activation = ActivationSums(self.population, self.num_modules, draws, penalty)
        self._of_target = Accumulator(model, "target", self.performance)
        beside = ["scores"] if self.router is not None and self.router.penalises_scores else []
        self._of_activation = Accumulator(model, "activation", self.activation, beside)
        self._set_data(evaluation, split)

    def on(self, evaluation: Evaluation, split: str) -> "Evaluator":
        """Another evaluator of the same model on other data, which shares what is compiled.

        Raises:
            ValueError: on an unknown split or condition, or more draws than this evaluator's.
        """
        if not self.exact_usage and evaluation.draws > self.activation.draws:
            raise ValueError(
                f"draws={evaluation.draws} is more than the {self.activation.draws} that this evaluator was "
                "made for. Make the one with more draws first."
            )
        other = copy.copy(self)
        other._set_data(evaluation, split)
        return other

    def of(self, population: Population) -> "Evaluator":
        """Another evaluator of the same model for other members of the same shape, which shares what is
        compiled."""
        other = copy.copy(self)
        other.population = population.with_seed(self.population.seeds[0])
        return other

    def _set_data(self, evaluation: Evaluation, split: str) -> None:
        check_choice("split", split, SPLITS)
        family = self.population.family
        self.conditions = [family.condition(name) for name in dict.fromkeys([IID, *evaluation.names(family)])]
        self.evaluation, self.split = evaluation, split

    def run(self) -> Scores:
        """Performance under every condition, the activation matrix and its measures, the router's penalty.

        Raises:
            ValueError: if a user's model fails on some of the data.
        """
        with failures_explained(self.model, self.population, self.evaluation):
            return self._run()

    def _run(self) -> Scores:
        rows: Rows = {}
        for condition in self.conditions:
            steps = self.evaluation.batches
            self._accumulate(self._of_target, steps, **condition.stream_options())
            batches = float(self.performance.batches.numpy())
            rows["loss", condition.name] = self.performance.loss.numpy() / batches
            if self.performance.error_of is not None:
                rows["error", condition.name] = 100.0 * self.performance.error.numpy() / batches
        activation = self.activation_matrix()
        if self.penalty_name:
            penalty = self.activation.penalty.numpy() / float(self.activation.batches.numpy())
        measures = measure_members(activation, **({} if self.exact_usage else self._usage()))
        rows |= {(name, IID): values for name, values in measures.items()}
        if self.penalty_name:
            rows[self.penalty_name, IID] = penalty
        return Scores(rows, activation, self.population.family)

    def activation_matrix(self) -> np.ndarray:
        """A [P, R, M], float64, from `evaluation.tokens` tokens; NaN for a member that has diverged."""
        if not self.says_activation:
            return np.ones([len(self.population), self.population.task.num_rules, 1])
        self._accumulate(self._of_activation, self._steps(self.evaluation.tokens))
        counts = self.activation.rules.numpy().sum(axis=1)
        return rates(self.activation.by_rule.numpy(), counts)

    def _usage(self) -> dict[str, np.ndarray]:
        """Module use [P, K, M] under each of K rule distributions, and how often the rules came [P, K, R]."""
        draws = self.evaluation.draws
        steps = draws * self._steps(self.evaluation.tokens_per_draw)
        self._accumulate(self._of_activation, steps, draws)
        sums, rules = (v.numpy()[:, :draws] for v in (self.activation.by_draw, self.activation.rules))
        counts = rules.sum(axis=2)
        return {
            "usage": rates(sums, counts),
            "rule_frequencies": rates(rules, counts),
        }

    def _steps(self, tokens: int) -> int:
        """Batches that hold so many tokens of a member."""
        batch = self.evaluation.activation_batch_size * self.population.family.num_training_tokens
        return -(-tokens // batch)

    def _accumulate(
        self, accumulator: Accumulator, steps: int, draws: int | None = None, **options: Any
    ) -> None:
        """Accumulates `steps` batches of a stream with these options."""
        output, sizes = accumulator.output, self.evaluation
        batch_size = sizes.batch_size if output == "target" else sizes.activation_batch_size
        which = (self.population, output, batch_size, self.split, draws)
        on_device = self.place == "device"
        accumulator.run(evaluation_batches(*which, on_device=on_device, **options), steps)
