"""A cell that goes on with another one's compiled model ends as if it had its own."""

import gc
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from modtf import Cell, Evaluation, Protocol, Task, Training, load_results, run_cell
from modtf.engines import train_cell as reuse
from modtf.models.build import build_cell
from modtf.models.routers import ROUTERS

SIZES = Evaluation(batches=1, batch_size=8, tokens=80, activation_batch_size=8, draws=2, tokens_per_draw=80)
PROTOCOL = Protocol(Training(steps=4, batch_size=8, evaluations=1), replace(SIZES, conditions=()))


def cell(variant, members, **protocol):
    return Cell(Task("mlp", num_rules=2), 4, variant, members, PROTOCOL.replace(**protocol))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(reuse, "_kept", OrderedDict())


def ends(cell, out):
    """All numbers that a cell leaves, but for times."""
    folder = run_cell(cell, out, verbose=False)
    results = load_results(str(folder))
    results = results[~results["measure"].str.contains("second")]
    model = keras.saving.load_model(folder / "last.keras")
    assert [(task.data_seed, seed) for task, seed in model.population.members] == list(cell.members)
    return [results["value"].to_numpy(), *np.load(folder / "activation.npz").values(), *model.get_weights()]


@pytest.mark.slow
def test_the_same_numbers_as_alone(tmp_path):
    """With another learning rate and number of steps, and a router that keeps a state and draws noise."""
    first = cell("gumbel", ((0, 0), (1, 0)))
    second = cell("gumbel", ((2, 3), (4, 1)), learning_rate=1e-2, steps=8, evaluations=2)
    alone = ends(second, tmp_path / "alone")
    reuse._kept.clear()
    ends(first, tmp_path / "shared")
    (lent,) = reuse._kept.values()
    np.testing.assert_equal(ends(second, tmp_path / "shared"), alone)
    (again,) = reuse._kept.values()
    assert again[0] is lent[0]


def lend(cell, data="auto"):
    return reuse.lend(cell, cell.population, build_cell(cell, cell.population), data)


def test_what_was_interrupted_is_not_kept():
    with pytest.raises(KeyboardInterrupt), lend(cell("monolithic", ((0, 0),))):
        raise KeyboardInterrupt
    assert not reuse._kept


def test_other_shapes_are_not_shared(monkeypatch):
    one = cell("modular", ((0, 0),))
    changes: list[Any] = [{"variant": "modular_op"}, {"members": ((0, 0), (1, 0))}, {"width": 5}]
    changes += [{"task": Task("mlp", setting="classification", num_rules=2)}]
    changes += [{"protocol": PROTOCOL.replace(batch_size=4)}]
    others, models = [replace(one, **change) for change in changes], []
    for each in (one, *others):
        with lend(each) as (model, _):
            models.append(model)
    assert len(set(map(id, models))) == len(models) <= reuse.KEPT
    with lend(replace(one, members=((3, 3),))) as (model, _):
        assert model is models[0]
    monkeypatch.setattr(reuse, "KEPT", 2)
    with lend(others[-1]) as (last, _):
        pass
    assert [kept for kept, _ in reuse._kept.values()] == [models[0], last]
    monkeypatch.setattr(reuse, "LARGEST", 1)
    with lend(one):
        pass
    assert [kept for kept, _ in reuse._kept.values()] == [last]


def test_a_name_that_was_registered_anew_is_another_router(monkeypatch):
    one = cell("modular", ((0, 0),))
    with lend(one) as (before, _):
        pass

    other = type("Other", (ROUTERS["modular"],), {})
    monkeypatch.setitem(ROUTERS._objects, "modular", other)
    with lend(one) as (after, _):
        assert after is not before


@pytest.mark.slow
def test_memory_does_not_grow_with_cells(tmp_path):
    held = []  # pages in main memory
    for number in range(12):
        run_cell(cell("modular", ((0, 2 * number), (1, 2 * number + 1))), tmp_path, verbose=False)
        gc.collect()
        held.append(int(Path("/proc/self/statm").read_text().split()[1]))
    assert max(held[-4:]) < 1.02 * max(held[:4])
