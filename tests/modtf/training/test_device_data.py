"""Training and evaluating on data that the compiled programs make: the numbers of the host's data."""

import numpy as np
import pytest
from interrupted import Killed

import modtf
from modtf import Task, build, train
from modtf.evaluation import batches
from modtf.evaluation.batches import choose_place
from modtf.tasks.families import FAMILIES

pytestmark = pytest.mark.xla
TASKS = [Task(num_rules=2, data_seed=i) for i in range(2)]


def trained(data, sizes, checkpoint=None, callbacks=()):
    """A training of two epochs: the model, what was measured, and the weights."""
    model = build(TASKS, "modular", 4, [0, 1])
    history = train(
        model, TASKS, 12, batch_size=8, learning_rate=1e-2, evaluations=2, evaluation=sizes,
        data=data, checkpoint=checkpoint, callbacks=callbacks, verbose=False,
    ).history  # fmt: skip
    return model, history, [variable.numpy() for variable in model.variables]


@pytest.mark.slow
def test_as_on_the_host_also_where_it_was_interrupted(small_sizes, tmp_path):
    _, ours, found = trained("device", small_sizes)
    model, theirs, expected = trained("host", small_sizes)
    assert ours.keys() == theirs.keys()
    for name, values in theirs.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    places = (modtf.evaluate(model, TASKS, evaluation=small_sizes, data=data) for data in ("host", "device"))
    for host, device in zip(*places, strict=True):
        assert host == pytest.approx(device, abs=1e-6)
    path = tmp_path / "checkpoint.npz"
    with pytest.raises(KeyboardInterrupt):
        trained("device", small_sizes, path, [Killed()])
    np.testing.assert_equal(trained("device", small_sizes, path)[2], found)


def test_where_data_are_made(monkeypatch, capsys):
    family = FAMILIES["mlp"]
    assert [choose_place(name, family) for name in ("auto", "host", "device")] == ["host", "host", "device"]
    monkeypatch.setattr(batches, "on_cpu", lambda: False)
    assert choose_place("auto", family) == "device"
    assert choose_place("device", family, "the test says so") == "host"
    monkeypatch.setattr(batches.data_class(family), "runs_on_device", False)
    assert choose_place("auto", family) == choose_place("auto", family) == "host"
    assert capsys.readouterr().out.splitlines() == [
        "data=device: data are made on the host, because the test says so.",
        "data=auto: data are made on the host, because those of the family 'mlp' can be made on the host "
        "only.",
    ]
    with pytest.raises(ValueError, match="data='gpu'"):
        train(build(Task(), width=4), Task(), 2, data="gpu", verbose=False)
