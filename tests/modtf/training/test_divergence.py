"""A member that turns NaN is written down with its step, and the others end as without it."""

import keras
import numpy as np
import pytest

from modtf import Task, build
from modtf.protocol import Training
from modtf.training import execution
from modtf.training.compile import compile_model
from modtf.training.execution import state_of, use_large_programs
from modtf.training.fit import training_batches


class Poison(keras.callbacks.Callback):
    """Makes a weight of the second member infinite after the first epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 1:
            weight = self.model.trainable_variables[0]
            values = weight.numpy()
            values[1].flat[0] = np.inf
            weight.assign(values)


@pytest.mark.parametrize("in_turn", [True, False])
def test_the_others_end_as_without_it(monkeypatch, in_turn):
    monkeypatch.setattr(execution, "_take_turns", lambda: in_turn)
    model = build([Task(num_rules=2, data_seed=i) for i in range(3)], "modular", 4, [0, 1, 2])
    training = Training(steps=8, learning_rate=1e-2, clipnorm=1.0)
    compile_model(model, model.population, training, steps_per_execution=4)
    elements = use_large_programs(model, training_batches(model, model.population, 8))
    model.optimizer.build(model.trainable_variables)
    start, ends = [v.numpy() for v in state_of(model)], []
    for callbacks in ([], [Poison()]):
        for variable, value in zip(state_of(model), start, strict=True):
            variable.assign(value)
        model.fit(elements, epochs=2, steps_per_epoch=4, callbacks=callbacks, verbose=0, shuffle=False)
        ends.append([v.numpy() for v in model.trainable_variables])
        assert model.optimizer.diverged_at.numpy().tolist() == ([0, 5, 0] if callbacks else [0, 0, 0])
    for without, poisoned in zip(*ends, strict=True):
        np.testing.assert_array_equal(poisoned[[0, 2]], without[[0, 2]])
    assert any(np.isnan(poisoned[1]).any() for poisoned in ends[1])
