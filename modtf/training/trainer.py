"""The training of a cell: in one stage, or in the stages of its variant's trainer, each of which resumes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from modtf.base.checks import check_name
from modtf.base.registry import check_known_options, options_of_function, resolve
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.scores import without
from modtf.metrics.registry import MEASURES, check_row
from modtf.tasks.cell import Cell
from modtf.tasks.families import IID
from modtf.tasks.population import Population
from modtf.tasks.protocol import TRAINING_FACTOR, Training
from modtf.training.arithmetic import epochs_of
from modtf.training.batches import Stream
from modtf.training.callbacks.evaluate import BestWeights, Clock, EvaluateCallback, TailCallback
from modtf.training.fit import fit_model


class TrainerContext:
    """The argument of a variant's trainer.

        def first_the_head(context, warm_up=100):  # the trainer's options, with defaults
            context.model.body.trainable = False
            context.fit("head", context.model, None, warm_up)
            context.model.body.trainable = True
            context.fit("all", context.model, None, context.training.steps - warm_up)

    A killed trainer is called again from its beginning. Finished stages return at once with their final
    weights, so code between stages must depend on nothing else.

    Attributes:
        model: the variant's model, newly built; its state after the last stage is measured at the end.
        population: the cell's members, or the one member that is trained.
        task: of the first member, for properties that all members share.
        training: the cell's training protocol.
        sizes: of the final evaluation.
        trainer, options: the variant's trainer, and all its options.
        steps: of all stages so far.
        seconds: of the stages that were not measured.
        evaluation, tail, best: measurements during the training of `model`; tail and best of the last stage.
        diverged_at: steps [P], 0 for members whose weights are finite.
        untrained: which members [P] kept initial weights in a stage whose `judge` never gave a finite number.
        rows: (measure, condition, place) -> values [P] that `record` received.
    """

    tail: TailCallback
    best: BestWeights

    def __init__(
        self,
        cell: Cell,
        population: Population,
        model: keras.Model,
        evaluator: Evaluator,
        folder: Path,
        callbacks: Sequence[keras.callbacks.Callback] = (),
        label: str = "",
        **how: Any,
    ):
        self.sizes = sizes = cell.protocol.evaluation
        described = cell.to_dict()
        # every stage has its own training
        self._whose = {"protocol": described.pop("training"), **described}
        self.model, self.population, self.task = model, population, population.task
        self.training, self.steps, self.seconds = cell.protocol.training, 0, 0.0
        self.trainer, self.options = trainer_of(cell)
        family = population.family
        now = sizes.smaller(TRAINING_FACTOR, family.while_training)
        self.evaluation = EvaluateCallback(evaluator.on(now, "validation"))
        # only families that report "tail" measure all conditions often; others may have too many
        often = sizes.smaller(TRAINING_FACTOR, sizes.conditions) if family.checkpoint == "tail" else now
        self._of_tail = evaluator.on(often, "test")
        self.measuring: list[keras.callbacks.Callback] = []  # callbacks that read `evaluation`
        self.callbacks, self.rows = list(callbacks), dict[tuple[str, str, str], np.ndarray]()
        self.diverged_at = np.zeros(len(population), np.int64)
        self.untrained = np.zeros(len(population), bool)
        self._folder, self._label, self._how = folder, label, how
        self._stages: set[str] = set()

    def fit(
        self,
        stage: str,
        model: keras.Model,
        stream: Stream,
        steps: int,
        *,
        training: Training | None = None,
        loss: Any = None,
        measured: bool = True,
        judge: Callable[[], Any] | None = None,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> keras.callbacks.History:
        """Train a model in one stage, starting from its checkpoint.

        Args:
            stage: a name, different from that of every other stage.
            model: `context.model`, or another model that this stage needs.
            stream: None for the "train" stream of the task; an endless `tf.data.Dataset` of (features,
                target) or (features, {output: target}) of one shape; or a function from the number of the
                first step to such a dataset, which resumes without reading earlier batches.
            steps: of this stage, each on one batch.
            training: the optimizer, its numbers, and the batch size of the task's stream; by default the
                cell's. A schedule covers this stage only.
            loss: of the output "target", or a dict by output; the loss of the setting by default.
            measured: whether `context.model` is measured while this stage trains it. The last stage must be
                measured, unless `measure` follows.
            judge: returns a number to minimise. It selects the checkpoint "best" in a measured stage (by
                default the performance), and the final weights of another stage (by default the last). A
                member for which it never returns a finite number counts as diverged, and has no results.
            callbacks: more callbacks for this stage only; the checkpoint stores those with `state()` and
                `load_state(state)`.

        Returns:
            Keras's history of the remaining part of the stage.

        Raises:
            ValueError: if the name is invalid or was used before; and as `modtf.train`.
        """
        if stage:
            check_name("a stage", stage)
        if stage in self._stages:
            raise ValueError(f"The stage {stage!r} exists already. Give every stage a different name.")
        self._stages.add(stage)
        own, callbacks = model is self.model, [*callbacks, *self.callbacks]
        training = replace(training or self.training, steps=steps)
        _, self.evaluation.every, length = epochs_of(training)
        if own and measured:
            self.evaluation.begin = self.steps
            self.tail = TailCallback(self._of_tail, length, training.tail > 0)
            self.best = BestWeights(self.evaluation, judge)
            callbacks = [self.evaluation, self.tail, self.best, *self.measuring, *callbacks]
        else:
            clock, best = Clock(), BestWeights(self.evaluation, judge)
            callbacks = [clock, *([best] if judge else []), *callbacks]
        history = fit_model(
            model,
            self.population,
            training,
            batches=stream,
            loss=loss,
            checkpoint=self._folder / (f"checkpoint_{stage}.npz" if stage else "checkpoint.npz"),
            callbacks=callbacks,
            label=" ".join(filter(None, (self._label, stage))),
            whose={"stage": stage, **self._whose},
            **self._how,
        )
        done = int(model.optimizer.iterations)
        if done != steps:
            raise ValueError(
                f"The training ended after {done:,} of {steps:,} steps{f' of {stage!r}' if stage else ''}, "
                "because a callback stopped it or its data ended. Its results would pass for those of all."
            )
        if own:
            self._diverged(np.asarray(model.optimizer.diverged_at))
        if not (own and measured):
            self.seconds += sum(clock.seconds)
            if judge is not None:
                best.restore()
                never = best.step == 0
                self._diverged(np.where(never, steps, 0))
                self.untrained |= never
        self.steps += steps
        return history

    def _diverged(self, lost: np.ndarray) -> None:
        """Note the steps of the current stage at which members diverged, 0 for others."""
        now = (self.diverged_at == 0) & (lost > 0)
        self.diverged_at = np.where(now, self.steps + lost, self.diverged_at)

    def measure(self) -> None:
        """Measure `model` now, if the last stage trained other models; it then serves as all checkpoints."""
        self.evaluation.found.append(without(self.evaluation.evaluator.run(), self.untrained))
        self.evaluation.steps.append(self.steps)
        self.tail, self.best = TailCallback(self._of_tail, 1), BestWeights(self.evaluation)
        self.tail.found.append(self._of_tail.run())
        self.best.set_model(self.model)
        self.best.on_train_begin()
        self.best.step += self.steps

    def record(self, measure: str, value: Any, condition: str = IID, place: str = "") -> None:
        """Add a row to the results of every checkpoint.

        Args:
            measure: its name, which no measure has, and no row that modtf writes ("seconds").
            value: a number, or one per member.
            condition, place: names that the family defines.
        """
        check_row("a recorded row", measure, MEASURES)
        condition = self.task.condition(condition).name
        self.rows[measure, condition, place] = np.broadcast_to(np.asarray(value, float), len(self.population))


def trainer_of(cell: Cell) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the trainer of a cell and all its options; raise `ValueError` on options that the trainer or its
    `check` rejects."""
    trainer = resolve(cell.task.family.variant(cell.variant).trainer)
    known = options_of_function(trainer, 1)
    check_known_options(f"the trainer of {cell.variant!r}", cell.trainer, known)
    options = {**known, **cell.trainer}
    if check := getattr(trainer, "check", None):
        check(**options)
    return trainer, options


def checked_by(
    check: Callable[..., None],
    reusable: bool = False,
    needs: Mapping[str, str] | None = None,
    check_model: Callable[..., None] | None = None,
) -> Callable[[Any], Any]:
    """Return a decorator that gives a trainer a function to check its options before any work.

    `reusable` promises that the trainer changes values of weights only, so that its model, with all that is
    compiled for it, can serve the next member. `needs` names the option without which another has no effect.
    `check_model` is called with a model, its task and the options, also before any work.
    """

    def add(trainer: Any) -> Any:
        trainer.check, trainer.reusable, trainer.needs = check, reusable, needs or {}
        trainer.check_model = check_model
        return trainer

    return add
