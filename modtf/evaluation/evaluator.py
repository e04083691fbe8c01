"""Measures a trained model: `modtf.evaluate`, and the evaluator that training callbacks share."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import keras
import numpy as np

from modtf.base.checks import check_choice, check_type
from modtf.base.registry import resolve
from modtf.evaluation.accumulate import Accumulator, ActivationSums, PerformanceSums, State
from modtf.evaluation.batches import alike, choose_place, evaluation_batches
from modtf.evaluation.outputs import failures_explained, find_outputs, find_routers, measured_population
from modtf.evaluation.programs import compiled_of
from modtf.evaluation.scores import Rows, Scores, measure_members, rates, rows_of_sums, without
from modtf.models.base import ModularModel
from modtf.models.routers.base import Router
from modtf.tasks.condition import IID
from modtf.tasks.family import Family
from modtf.tasks.observed import Probe, at_place
from modtf.tasks.population import Population
from modtf.tasks.protocol import Evaluation
from modtf.tasks.task import SPLITS, Task
from modtf.xla.switches import use_precision


def evaluate(
    model: keras.Model,
    task: Task | Sequence[Task] | Population,
    *,
    evaluation: Evaluation | None = None,
    split: str = "test",
    seed: int = 0,
    data: str = "auto",
) -> Any:
    """Measure a model in and out of distribution, and its collapse and specialisation.

    Args:
        model: any `keras.Model` that takes features and returns `{"target", "activation"}`, or `{"target"}`
            alone, which is measured by performance, as one module.
        task: its task, or the list of tasks of a population; for a model of `modtf.build` the ones that it
            was built for or trained on last. `modtf.train` records tasks and seeds as `model.trained_on`, a
            `Population`. Set it for a model that was trained otherwise or is measured on another task.
        evaluation: how much data to read; `Evaluation()` by default.
        split: "test" or "validation".
        seed: of the evaluation stream.
        data: where the data are made: "host", "device" (by the compiled program itself), or "auto", the
            device on an accelerator and the host on a CPU.

    Returns:
        A dict of floats; for a population a list of dicts, one per member. It holds "loss" and, for
        classification, "error" in percent, each also under every other condition of the family: "loss_scale2"
        (inputs times 2), "loss_len30" (sequences of 30), "loss_len30_scale2". It also holds the measures of
        `modtf.metrics`, and the router's penalty, if it has one, under its name.

    Raises:
        ValueError: if the model is of another task, has other outputs or fails, or a split or condition is
            unknown.

    Example:
        >>> scores = modtf.evaluate(model, task)
        >>> scores["loss"], scores["loss_scale2"], scores["alignment"]
    """
    population = measured_population(model, task)
    check_choice("split", split, ("test", "validation"))
    evaluation = Evaluation() if evaluation is None else evaluation
    check_type("evaluation", evaluation, Evaluation)
    use_precision(getattr(compiled_of(model), "precision", "float32"))
    scores = Evaluator(model, population, evaluation, split, seed, data).run()
    members = [scores.member(i) for i in range(len(population))]
    return members if population.has_axis else members[0]


class Evaluator:
    """Measures a model on streams of its tasks, on the device, compiled once; see `evaluate`.

    `num_modules` is M by routed layer; 1 if a model does not return the activation of its only one.
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
        task, family = population.task, population.family
        self._on_device = choose_place(data, family) == "device"
        self.model = model
        self.population, self._trained = population.with_seed(seed), population
        last_axes = find_outputs(model, population)
        activation = {name: p.output for name, p in task.places.items() if p.output in last_axes}
        self.has_activation = bool(activation)
        self.num_modules = {name: last_axes[output] for name, output in activation.items()}
        if not activation and not family.places(task):
            self.num_modules = {"": 1}
        self.routers = find_routers(model)
        #: what routers add to the loss, by place
        self.penalties = {p: r.penalty_name for p, r in self.routers.items() if r.penalty_name}
        self.exact_usage = "" not in activation or _has_exact_usage(family, self.routers.get(""))
        self.draws = 1 if self.exact_usage else evaluation.draws
        self.rule_probs = family.rule_probs(task)
        self.probes = [probe for probe in family.probes(task) if probe.output in last_axes]
        performance = {"target": PerformanceSums(self.population)}
        probed = {_key(p): resolve(p.accumulator)(self.population, last_axes[p.output]) for p in self.probes}
        outputs = {"target": ["target"], **{_key(probe): [probe.output] for probe in self.probes}}
        self._of_performance = Accumulator(model, {**performance, **probed}, outputs)
        self._of_activation = self._activation_sums()
        self._set_data(evaluation, split)

    def _activation_sums(self) -> Accumulator:
        metrics, parts = {}, {}
        for name, num_modules in self.num_modules.items() if self.has_activation else ():
            place, router = self.population.task.places[name], self.routers.get(name)
            penalty = router.precise_penalty if router is not None and name in self.penalties else None
            metrics[name] = ActivationSums(self.population, place, num_modules, self.draws, penalty)
            priced = [at_place("scores", name)] if router is not None and router.penalises_scores else []
            parts[name] = [place.output, *priced]
        return Accumulator(self.model, metrics, parts)

    def on(self, evaluation: Evaluation, split: str) -> "Evaluator":
        """Return an evaluator of the same model on other data. It reports the probes that are meant for
        training, and shares compiled programs, which compute all: another program would cost more."""
        if not self.exact_usage and evaluation.draws > self.draws:
            raise ValueError(
                f"draws={evaluation.draws} is not valid; expected at most {self.draws}, as this evaluator "
                "was made with. Make the evaluator with more draws first."
            )
        other = copy.copy(self)
        other.probes = [probe for probe in self.probes if probe.while_training]
        other._set_data(evaluation, split)
        return other

    def of(self, population: Population) -> "Evaluator":
        """Return an evaluator for other members of the same shape that shares compiled programs."""
        other = copy.copy(self)
        other.population, other._trained = population.with_seed(self.population.seeds[0]), population
        return other

    def _set_data(self, evaluation: Evaluation, split: str) -> None:
        check_choice("split", split, SPLITS)
        task = self.population.task
        self.conditions = [task.condition(name) for name in dict.fromkeys([IID, *evaluation.names(task)])]
        self.evaluation, self.split = evaluation, split

    @property
    def identity(self) -> dict[str, Any]:
        """Return what the evaluator reads, JSON-able."""
        return {"split": self.split, "seeds": self.population.seeds, **asdict(self.evaluation)}

    def run(self, number: int = 0, of: int = 1) -> Scores:
        """Measure performance by condition and group, activation, its measures, penalties and probes.

        It reads share `number`, from 0, of `of` consecutive shares of the streams.
        """
        self._share = number, of
        with failures_explained(self.model, self.population, self.evaluation):
            rows = self._performance()
            activation, of_places = self._activation()
        return without(Scores({**rows, **of_places}, activation), self._diverged())

    def _diverged(self) -> np.ndarray:
        """Return which members [P] have weights that are not finite: ReLU and fixed routing hide NaN."""
        lost = np.zeros(members := len(self.population), bool)
        by_member = members == 1 or isinstance(self.model, ModularModel)  # a user's has a layout of its own
        for weight in self.model.trainable_weights if by_member else ():
            lost |= ~np.isfinite(keras.ops.convert_to_numpy(weight)).reshape(members, -1).all(axis=1)
        return lost

    def _performance(self) -> Rows:
        """Return performance by condition and group, and the rows of probes."""
        states: dict[str, State] = {}
        for conditions in alike(self.conditions):
            states_of_each = self._read(self._of_performance, "target", self.evaluation.batches, conditions)
            states |= {c.name: state for state, c in zip(states_of_each, conditions, strict=True)}
        sums = {condition.name: states[condition.name]["target"] for condition in self.conditions}
        rows = rows_of_sums(self.population, sums)
        return rows | self._probe_rows(states)

    def _probe_rows(self, states: dict[str, State]) -> Rows:
        rows: Rows = {}
        for probe in self.probes:
            values = resolve(probe.rows)({name: state[_key(probe)] for name, state in states.items()})
            for (measure, condition, *place), value in values.items():
                rows[measure, condition, "".join(place)] = np.full(len(self.population), value, np.float64)
        return rows

    def _activation(self) -> tuple[dict[str, np.ndarray], Rows]:
        """Return A [P, R, M] of every place, float64, NaN for diverged members; and the measures of A."""
        rows: Rows = {}
        if not self.has_activation:
            shape = [len(self.population), self.population.task.num_rules, 1]
            matrices = {place: np.ones(shape) for place in self.num_modules}
        else:
            iid = [self.population.family.condition(IID)]
            steps = self._steps(self.evaluation.tokens_of(self.population.task))
            (state,) = self._read(self._of_activation, "activation", steps, iid)
            matrices = {p: rates(s["by_rule"], s["rules_of_draw"].sum(axis=1)) for p, s in state.items()}
        for place, matrix in matrices.items():
            sampled = self._usage() if place == "" and not self.exact_usage else {}
            measured = measure_members(matrix, rule_probs=None if place else self.rule_probs, **sampled)
            rows |= {(m, IID, place): values for m, values in measured.items()}
            if place in self.penalties:
                penalty = state[place]["penalty"] / float(state[place]["batches"])
                rows[self.penalties[place], IID, place] = penalty
        return matrices, rows

    def _usage(self) -> dict[str, np.ndarray]:
        """Return module use [P, K, M] under K rule distributions, and the rules' frequencies [P, K, R]."""
        draws, iid = self.evaluation.draws, [self.population.family.condition(IID)]
        steps = draws * self._steps(self.evaluation.tokens_per_draw)
        (state,) = self._read(self._of_activation, "activation", steps, iid, draws)
        sums, rules = (state[""][name][:, :draws] for name in ("by_draw", "rules_of_draw"))
        counts = rules.sum(axis=2)
        return {"usage": rates(sums, counts), "rule_frequencies": rates(rules, counts)}

    def _steps(self, tokens: int) -> int:
        """Return how many batches hold `tokens` tokens of a member."""
        task = self.population.task
        return -(-tokens // (self.evaluation.activation_batch_size * task.family.num_tokens(task)))

    def _read(
        self, accumulator: Accumulator, output: str, steps: int, conditions: Any, draws: int | None = None
    ) -> Iterator[State]:
        """Return the metrics after `steps` batches under each of conditions that are alike."""
        sizes = self.evaluation
        batch_size = sizes.batch_size if output == "target" else sizes.activation_batch_size
        split = conditions[0].split
        population, split = (self._trained, split) if split else (self.population, self.split)
        which = (population, output, batch_size, split, tuple(conditions), draws, self._on_device)
        return accumulator.run(evaluation_batches(*which), steps, *self._share)


def _has_exact_usage(family: Family, router: Router | None) -> bool:
    """Return whether module use q = p @ A is exact at the only routed layer.

    It is exact if p depends on the token alone and tokens are single. At several places tokens are not drawn
    by their rules alone; there use is computed from A, too.
    """
    if router is None:
        return not family.is_sequence
    return router.depends_only_on_rule or not (family.is_sequence or router.sees_batch)


def _key(probe: Probe) -> str:
    return f"probe_{probe.name}"
