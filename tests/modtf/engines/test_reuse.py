"""A cell that reuses another cell's compiled model ends with the same numbers."""

import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from modtf import Cell, Evaluation, Protocol, Task, Training, load_results, run_cell
from modtf.base.cache import Cache
from modtf.engines.train_cell import _reuse_key
from modtf.evaluation import programs
from modtf.evaluation.evaluator import Evaluator
from modtf.models.architectures import ARCHITECTURES
from modtf.models.build import build_cell
from modtf.models.routers import ROUTERS

SIZES = Evaluation(batches=1, batch_size=8, tokens=80, activation_batch_size=8, draws=2, tokens_per_draw=80)
PROTOCOL = Protocol(Training(steps=4, batch_size=8, evaluations=1), replace(SIZES, conditions=()))


def cell(variant, members, **protocol):
    return Cell(Task("mlp", num_rules=2), 4, variant, members, PROTOCOL.replace(**protocol))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(programs, "_models", Cache(8))


def ends(cell, out):
    """Return all numbers that a cell writes, except times."""
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
    programs._models.clear()
    ends(first, tmp_path / "shared")
    (lent,) = programs._models.values()
    np.testing.assert_equal(ends(second, tmp_path / "shared"), alone)
    (again,) = programs._models.values()
    assert again[0] is lent[0]


@pytest.fixture
def traces(monkeypatch):
    """Count the runs of a model's `call`: TensorFlow calls it once per traced program."""
    counted, call = [0], ARCHITECTURES["mlp"].call

    def count(self, *arguments, **options):
        counted[0] += 1
        return call(self, *arguments, **options)

    monkeypatch.setattr(ARCHITECTURES["mlp"], "call", count)
    return counted


@pytest.mark.slow
def test_a_second_cell_of_the_same_shape_traces_nothing(tmp_path, traces):
    """Another number of steps between two returns to Python is one program more."""
    counts: list[int] = []
    for changes in ({}, {"learning_rate": 1e-2}, {"steps": 8}):
        members = ((len(counts), 0), (len(counts), 1))
        run_cell(cell("modular", members, **changes), tmp_path, verbose=False)
        counts.append(traces[0])
    assert counts == [3, 3, 4]


def reuse(cell, data="auto"):
    model, population = build_cell(cell, cell.population), cell.population
    key = _reuse_key(cell, model, data)
    return programs.reuse(
        key, model, population, lambda: Evaluator(model, population, cell.protocol.evaluation)
    )


def test_what_was_interrupted_is_not_kept():
    with pytest.raises(KeyboardInterrupt), reuse(cell("monolithic", ((0, 0),))):
        raise KeyboardInterrupt
    assert not programs._models


def test_other_shapes_are_not_shared(monkeypatch):
    one = cell("modular", ((0, 0),))
    changes: list[Any] = [{"variant": "modular_op"}, {"members": ((0, 0), (1, 0))}, {"width": 5}]
    changes += [{"task": Task("mlp", setting="classification", num_rules=2)}]
    changes += [{"protocol": PROTOCOL.replace(batch_size=4)}]
    others, models = [replace(one, **change) for change in changes], []
    for each in (one, *others):
        with reuse(each) as (model, _):
            models.append(model)
    assert len(set(map(id, models))) == len(models) <= programs._models.most
    with reuse(replace(one, members=((3, 3),))) as (model, _):
        assert model is models[0]
    monkeypatch.setattr(programs._models, "most", 2)
    with reuse(others[-1]) as (last, _):
        pass
    assert [kept for kept, _ in programs._models.values()] == [models[0], last]
    monkeypatch.setattr(programs, "LARGEST", 1)
    with reuse(one):
        pass
    assert [kept for kept, _ in programs._models.values()] == [last]


def test_a_name_that_was_registered_anew_is_another_router(monkeypatch):
    one = cell("modular", ((0, 0),))
    with reuse(one) as (before, _):
        pass

    other = type("Other", (ROUTERS["modular"],), {})
    monkeypatch.setitem(ROUTERS._objects, "modular", other)
    with reuse(one) as (after, _):
        assert after is not before


@pytest.mark.slow
def test_memory_does_not_grow_with_cells(tmp_path):
    held = []  # pages in main memory
    for number in range(12):
        run_cell(cell("modular", ((0, 2 * number), (1, 2 * number + 1))), tmp_path, verbose=False)
        gc.collect()
        held.append(int(Path("/proc/self/statm").read_text().split()[1]))
    assert max(held[-4:]) < 1.02 * max(held[:4])
