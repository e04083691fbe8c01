"""With JAX, `fit` takes several steps in one program that makes its data: the numbers of single steps.

Run as a script it trains with JAX.
"""

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xla]


@pytest.mark.parametrize("arch", ["mlp", "mha", "rnn"])
def test_as_single_steps_from_the_host_also_where_it_was_interrupted(arch, tmp_path):
    pytest.importorskip("jax", reason="pip install '.[jax]'")
    from processes import succeeds

    environment = {"KERAS_BACKEND": "jax", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    succeeds(__file__, arch, tmp_path / "checkpoint.npz", env=environment)


def main(arch, path):
    """Compare trainings of two epochs of six steps: loss, measures, and weights."""
    import keras

    import modtf
    from modtf.training.callbacks import checkpoint
    from modtf.training.callbacks.evaluate import EvaluateCallback

    tasks = [modtf.Task(arch, num_rules=2, data_seed=i) for i in range(2)]
    sizes = modtf.Evaluation(batches=2, batch_size=8, tokens=64, activation_batch_size=8, draws=2)

    class Kill(keras.callbacks.Callback):
        """Ends a training within its second epoch."""

        def __init__(self, error):
            super().__init__()
            self.error, self.calls = error, 0

        def on_train_batch_begin(self, batch, logs=None):
            self.calls += 1
            if self.calls == 5:
                raise self.error

    def interrupted(measure, step):
        def replaced(self, now):
            if now == step:
                raise KeyboardInterrupt
            measure(self, now)

        return replaced

    def trained(**how):
        model = modtf.build(tasks, "modular", 4, [0, 1])
        history = modtf.train(
            model, tasks, 12, batch_size=8, learning_rate=1e-2, evaluations=2, evaluation=sizes,
            verbose=False, schedule="cosine", **how,
        ).history  # fmt: skip
        return history, [variable.numpy() for variable in model.variables]

    history, weights = trained()
    expected = trained(data="host", steps_per_execution=1)
    for name, values in expected[0].items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4, atol=1e-6, err_msg=name)
    for one, other in zip(weights, expected[1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    measure = EvaluateCallback._measure
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EvaluateCallback, "_measure", interrupted(measure, step=12))
        with pytest.raises(KeyboardInterrupt):
            trained(checkpoint=path)
    resumed = trained(checkpoint=path)
    np.testing.assert_equal(resumed[1], weights)
    assert resumed[0]["loss"][-1] == pytest.approx(history["loss"][-1], rel=1e-5)
    path.unlink()
    for error, checkpoint.EVERY in ((KeyboardInterrupt, 30.0), (ValueError, 0.0)):  # written after or before
        with pytest.raises(error):
            trained(checkpoint=path, steps_per_execution=2, callbacks=[Kill(error)])
        with np.load(path) as saved:
            assert (int(saved["epoch"]), int(saved["begun"])) == (1, 2), error
        resumed = trained(checkpoint=path, steps_per_execution=6)
        np.testing.assert_equal(resumed[1], weights)
        path.unlink()


if __name__ == "__main__":
    import sys
    from pathlib import Path

    main(sys.argv[1], Path(sys.argv[2]))
