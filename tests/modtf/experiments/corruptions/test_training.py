"""How many steps every stage takes, and that all four methods run, resume and leave results."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZipFile

import corruptions
import numpy as np
import pandas as pd
import pytest

from modtf.datasets import base_images
from modtf.engines.cell import run_cell
from modtf.evaluation import programs
from modtf.experiments.corruptions import modules, studies, trainers
from modtf.experiments.corruptions.conditions import CORRUPTIONS
from modtf.experiments.corruptions.modules import ALL, Views
from modtf.experiments.corruptions.network import SmallNetwork
from modtf.experiments.corruptions.trainers import _given_sites, epochs_of_images
from modtf.studies.load import load_study
from modtf.tasks.cell import Cell
from modtf.tasks.protocol import Evaluation, Protocol
from modtf.tasks.task import Task
from modtf.training.trainer import trainer_of

ROOT = Path(__file__).parents[4]
OPTIONS: dict[str, dict[str, Any]] = {
    "modular": {"sites": [5, 5, 4, 5, 5, 4]},
    "image_space": {"classifier": "joint"},
}
MODULES = {"erm": 1, "contrastive": 1, "modular": 7, "routed": 8, "image_space": 7, "labelled": 1}


def smoke(task):
    """Everything once, in seconds. Its numbers mean nothing."""
    training = {"steps": 4, "batch_size": 14, "evaluations": 2}
    sizes = {"batches": 1, "tokens": 200, "activation_batch_size": 50, "draws": 2, "tokens_per_draw": 50}
    protocol = Protocol.quick(task).replace(**training, **sizes, conditions=("id", "co", "gb", "co_gb"))
    return Protocol(protocol.training, Evaluation(**{**vars(protocol.evaluation), "batch_size": 10}))


def test_steps_are_the_published_ones():
    task = Task("corruptions", dataset="emnist")
    context: Any = SimpleNamespace(task=task, training=Protocol.published(task).training)
    epochs = epochs_of_images(context)
    found = {len(rules): Views(context, rules, "fresh", "all") for rules in (ALL, (0,), (1, 0))}
    assert {n: views.batch_size for n, views in found.items()} == {7: 36, 1: 256, 2: 128}
    assert [found[n].steps(epochs) for n in (7, 1, 2)] == [522_200, 73_400, 146_800]
    assert found[2].steps(epochs * 0.025) * 36 == 132_120


def test_contrastive_sees_the_corruptions_of_a_derived_family(monkeypatch):
    """Eight views of every image, in ten epochs of eight views each."""
    of = SimpleNamespace(dataset="digits", num_rules=8)
    training = Protocol.quick(Task("corruptions")).replace(steps=10 * (8 * 4_000 // 256)).training
    context: Any = SimpleNamespace(task=of, training=training, model=None)
    stages = []
    monkeypatch.setattr(trainers, "train_stage", lambda *stage, **how: stages.append(stage))
    trainers.contrastive(context)
    [(_, _, _, views, _, steps)] = stages
    assert views.rules == tuple(range(8))
    assert (epochs_of_images(context), steps) == (10, 10 * 4_000 // 32)


@pytest.mark.parametrize(("search", "steps"), [(0.025, 8), (0.2, 62)])
def test_results_say_how_long_sites_were_searched_for(monkeypatch, search, steps):
    """The default is the published share of epochs, of which the quick preset has ten."""
    found: dict[tuple[str, str], float] = {}
    searched: dict[str, Any] = {"search": lambda *how: np.arange(6.0), "train": lambda *how: None}
    stages = SimpleNamespace(train_network=lambda *how: None, **searched)
    monkeypatch.setattr(trainers, "ModuleStages", lambda *how: stages)
    task = Task("corruptions")
    context: Any = SimpleNamespace(
        task=task, training=Protocol.quick(task).training, measure=lambda: None,
        model=SimpleNamespace(network=SimpleNamespace(num_sites=6), attach=lambda *module: None),
        record=lambda measure, value, condition: found.update({(measure, condition): value}),
    )  # fmt: skip
    trainers.modular(context, search=search)
    assert [found["search_steps", name.lower()] for name in CORRUPTIONS] == [steps] * 6
    found.clear()
    trainers.modular(context, sites=2)
    assert {measure for measure, _ in found} == {"site"}


def test_sites_may_be_given():
    assert _given_sites(None, 6) == {}
    assert _given_sites(2, 6) == dict.fromkeys(CORRUPTIONS, 2)
    for sites in (6, 2.5, [1, 2], "2"):
        with pytest.raises(
            ValueError,
            match=r"sites=.* is not valid; expected an integer between 0 and 5, or one for each of six",
        ):
            _given_sites(sites, 6)


def test_the_study():
    cells = load_study("corruptions_quick").cells
    found = " ".join(cell.variant for cell in cells)
    at_contrasts = "erm modular erm contrastive routed contrastive routed modular erm modular"
    assert found == f"{at_contrasts} erm modular erm contrastive"
    assert [len(cell.members) for cell in cells] == [5] * 10 + [3] * 4
    clean, final, searched = steps_of_modular(cells[1])
    assert clean + 6 * (final + searched) == 2_382  # those that results count
    counted = clean + 6 * (final + SmallNetwork.num_sites * searched)
    assert round(cells[2].trainer["longer"] * cells[2].protocol.training.steps) == counted == 4_242


def steps_of_modular(cell):
    """Return the steps of the clean network, of a module, and of its search."""
    context: Any = SimpleNamespace(task=cell.task, training=cell.protocol.training)
    clean, pairs = (Views(context, rules, "fresh", "all") for rules in ((0,), (1, 0)))
    epochs = epochs_of_images(context)
    return clean.steps(epochs), pairs.steps(epochs), pairs.steps(epochs * cell.trainer["search"])


def test_the_study_of_methods_that_receive_the_corruption():
    cells = corruptions.corruptions_told()
    found = {(cell.variant, *cell.trainer.values(), *cell.model.values()) for cell in cells}
    expected = {"image_space": ("identity", "joint"), "labelled": ("multi_hot", "mean")}
    assert found == {(variant, value) for variant, values in expected.items() for value in values}


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("corruptions", studies.cells),
        ("corruptions_rates", corruptions.corruptions_rates),
        ("corruptions_told", corruptions.corruptions_told),
    ],
)
def test_what_is_committed_is_of_the_study(name, cells):
    with ZipFile(ROOT / "docs" / "study" / f"{name}.zip") as archive:
        committed = {name.partition("/")[0] for name in archive.namelist()}
    assert committed <= {cell.folder for cell in cells()}


@pytest.fixture(scope="module")
def toy():
    rng, patch = np.random.default_rng(0), pytest.MonkeyPatch()
    images = rng.integers(0, 256, [5000, 28, 28, 1]).astype(np.uint8)
    base = base_images.BaseImages(images, np.tile(np.arange(10), 500).astype(np.int32), 5000)
    patch.setattr(base_images, "load", lambda name: base)
    programs._of_one.clear()  # pipelines of the real images, and then of these
    yield
    programs._of_one.clear()
    patch.undo()


def cell_of(variant, **trainer):
    task = Task("corruptions")
    return Cell(task, 2, variant, ((0, 0),), smoke(task), trainer=trainer)


@pytest.mark.slow
@pytest.mark.parametrize("variant", MODULES)
def test_every_method_runs_and_leaves_results(variant, toy, tmp_path):
    trainer = OPTIONS.get(variant, {})
    folder = run_cell(cell_of(variant, **trainer), tmp_path, verbose=False)
    frame = pd.read_csv(folder / "results.csv")
    best = frame[frame["checkpoint"] == "best"].set_index(["measure", "condition"])["value"]
    assert {c for _, c in best.index} >= {"iid", "id", "co", "gb", "co_gb"}
    assert 0 <= best["invariance_elemental", "co_gb"] <= 1
    sites = [best["site", name.lower()] for name in CORRUPTIONS] if variant == "modular" else []
    assert sites == trainer.get("sites", [])
    assert best["seconds", "iid"] > 0
    assert set(frame["num_modules"]) == {MODULES[variant]}


@pytest.mark.slow
def test_modules_are_searched_for_stage_by_stage_and_resumed(toy, tmp_path, monkeypatch):
    """A run that was stopped after some stages ends as one that was not."""
    monkeypatch.setattr("modtf.experiments.corruptions.network.SmallNetwork.num_sites", 2)
    cell = cell_of("modular", strength=0.0, search=0.5)
    frames = []
    for out, stop in ((tmp_path / "whole", None), (tmp_path / "stopped", "im_search")):
        if stop:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("modtf.training.trainer.fit_model", stopped_at(stop))
                with pytest.raises(KeyboardInterrupt):
                    run_cell(cell, out, verbose=False)
            names = {path.name for path in out.glob("*/members/*/checkpoint_*.npz")}
            assert {"checkpoint_id.npz", "checkpoint_gb_search.npz", "checkpoint_gb_final.npz"} <= names
        frames.append(pd.read_csv(run_cell(cell, out, verbose=False) / "results.csv"))
    kept = [frame[~frame["measure"].str.contains("second")] for frame in frames]
    pd.testing.assert_frame_equal(*kept)
    assert (kept[0]["measure"] == "accuracy_site1").any()


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "trainer"), [("erm", {}), ("modular", {"search": 0.5})])
def test_a_member_that_takes_over_compiled_models_ends_as_alone(variant, trainer, toy, tmp_path, monkeypatch):
    monkeypatch.setattr("modtf.experiments.corruptions.network.SmallNetwork.num_sites", 2)
    alone = replace(cell_of(variant, **trainer), members=((1, 0),))
    after = replace(alone, members=((0, 0), (1, 0)))
    folders = []
    for out, cell in (("after", after), ("alone", alone)):
        folders.append(run_cell(cell, tmp_path / out, verbose=False) / "members" / "task1_seed0")
        modules._kept.clear()
        programs._models.clear()
    frames = [pd.read_csv(folder / "results.csv") for folder in folders]
    pd.testing.assert_frame_equal(*(frame[~frame["measure"].str.contains("second")] for frame in frames))


def stopped_at(stage):
    from modtf.training.fit import fit_model

    def other(*args, **how):
        if how["checkpoint"].name == f"checkpoint_{stage}.npz":
            raise KeyboardInterrupt
        return fit_model(*args, **how)

    return other


def test_what_is_refused_before_any_work():
    with pytest.raises(ValueError, match="strenght=1 is not an option of the trainer of 'contrastive'"):
        trainer_of(cell_of("contrastive", strenght=1))
    for variant, option, value in (
        ("contrastive", "strength", -1), ("modular", "strength", -0.5), ("erm", "longer", -1),
        ("modular", "search", 2), ("contrastive", "denominator", "all"), ("routed", "noise", "new"),
        ("image_space", "classifier", "both"), ("image_space", "autoencoder_rate", 2.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"^{option}={value!r} is not"):
            trainer_of(cell_of(variant, **{option: value}))


def test_the_contrastive_loss_needs_two_images_and_given_sites_no_search(tmp_path):
    protocol = Protocol.quick(Task("corruptions")).replace(steps=2, batch_size=13)
    cell = Cell(Task("corruptions"), 4, "contrastive", ((0, 0),), protocol)
    with pytest.raises(ValueError, match=r"batch_size=13 holds one image in 7 views.*at least 14"):
        run_cell(cell, tmp_path, verbose=False)
    with pytest.raises(ValueError, match="sites are given, so search and search_weights have no meaning"):
        trainers.check_trainer_options(sites=2, search=0.5, search_weights="last")
