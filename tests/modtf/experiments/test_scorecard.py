"""The scorecard: what is frozen, cards, differences and places, with known answers."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import modtf
from modtf.experiments.languages import scorecard as languages
from modtf.experiments.modarch.scorecard import card, compare, page
from modtf.experiments.modarch.scorecard.card import rates_table, search_of
from modtf.experiments.modarch.studies.scorecard import (
    AMOUNTS,
    FULL,
    MEASURES,
    RATES,
    SMOKE,
    TASKS,
    TUNED_ON,
    best_rate,
    key_of,
)
from modtf.studies import STUDIES, load_study

NAME = f"mine ({card.OURS})"
DOSES = [(amount, hard) for amount in AMOUNTS for hard in (False, True)]


def rows(variant, loss, alignment, options="", archs=("mlp", "rnn")):
    """Return a model whose loss is a multiple of the oracle's, which differs between tasks."""
    shared = {"variant": variant, "model_options": options, "num_modules": 16, "num_parameters": 100}
    measured = {**dict.fromkeys(MEASURES, 0.5), "alignment": alignment}
    return [
        {
            "arch": arch,
            "data_seed": task,
            **shared,
            "loss": loss * task,
            "loss_out": 2 * loss * task,
            **measured,
        }
        for arch in archs
        for task in TASKS
    ]


def card_with(*models, frozen=FULL):
    head = {"version": frozen.version, "tasks": frozen.hash, "modtf": "0.1.0", "checkpoint": "last"}
    together = [row for model in models for row in model]
    search = [
        dict(zip(("arch", "variant", "model_options"), key, strict=True))
        | {"losses": {"0.001": None, "0.01": 2.0, "0.1": 3.0}}
        for key in sorted({key_of(row) for row in together})
    ]
    return {**head, "search": search, "rows": together}


@pytest.fixture
def reference():
    """Fixed routing costs 1 + amount times the oracle's loss when weighted, 1 + 2 x amount when sampled."""
    models = [rows("gt_modular", 1.0, 0.0), rows("modular", 2.0, 0.8)]
    for amount, hard in DOSES:
        options = f"matrix=spread,amount={amount},hard={hard}"
        models.append(rows("clamped", 1 + amount * (1 + hard), amount, options, archs=["mlp"]))
    return card_with(*models)


def study_with(reference, own):
    return card.study_of(FULL, {"": reference, card.OURS: card_with(own)})


@pytest.mark.parametrize(
    ("frozen", "golden"),
    [
        (FULL, "44d90a4ad2cfb2de"), (SMOKE, "bc6e31b9c8c08c20"),
        (languages.FULL, "04951a6fb4636615"), (languages.SMOKE, "763a891b17cd63a2"),
    ],
)  # fmt: skip
def test_the_tasks_are_frozen(frozen, golden):
    """A change here needs a new version, with a new name and new reference results."""
    assert frozen.hash == golden


@pytest.mark.parametrize(
    ("frozen", "arch"), [(frozen, arch) for frozen in (FULL, languages.FULL) for arch in frozen.protocols]
)
def test_the_data_are_frozen(frozen, arch):
    tasks = frozen.cell(arch, "gt_modular", 1e-3).population.tasks
    stream = modtf.stream(list(tasks), batch_size=8, split="test", seed=[0] * len(tasks))
    [(features, target)] = stream.take(1).as_numpy_iterator()
    arrays = (features["inputs"], features["rule"], target)
    data = b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)
    assert hashlib.sha256(data).hexdigest()[:16] == frozen.data[arch]


def test_no_other_study_draws_its_tasks():
    for name in STUDIES:  # tests/test_page_studies.py has the others
        seeds = {data_seed for cell in load_study(name).cells for data_seed, _ in cell.members}
        assert name.startswith("scorecard") or not seeds & {*TASKS, *TUNED_ON}


@pytest.mark.parametrize(
    "frozen", [FULL, SMOKE, languages.FULL, languages.SMOKE], ids=lambda frozen: frozen.version
)
def test_the_rows_that_are_shipped_are_those_of_the_study(frozen):
    shipped = card.reference(frozen)
    cells = frozen.reference(shipped["search"])
    asked = {
        (cell.task.arch, cell.variant, cell.columns["model_options"], task)
        for cell in cells
        for task in frozen.tasks
    }
    names = ("arch", "variant", "model_options", "data_seed")
    assert {tuple(row[name] for name in names) for row in shipped["rows"]} == asked
    assert all(np.isfinite([row["loss"], row["loss_out"]]).all() for row in shipped["rows"])
    assert [line["losses"].keys() for line in shipped["search"]] == [
        {f"{rate:g}" for rate in frozen.rates[line["arch"]]} for line in shipped["search"]
    ]
    assert [cell.protocol.training.learning_rate for cell in cells] == list(map(best_rate, shipped["search"]))


@pytest.mark.parametrize("start_steps", [0, 1000, 10_000])
def test_a_rate_is_the_best_of_a_search(start_steps, monkeypatch):
    """By the validation loss after the last step, over all tasks; a task that diverged excludes a rate."""
    start: Any = {"trainer": {"start": "oracle", "start_steps": start_steps}} if start_steps else {}
    trials = FULL.trials("mlp", "modular", **start)
    means = dict(zip(RATES["mlp"], (0.4, 0.3, np.nan), strict=True))
    last = {cell.folder: means[rate] for rate, cell in trials.items()}

    def load_history(paths):
        [mean] = [last[Path(path).name] for path in paths]
        first, end = start_steps, start_steps + 10_000
        rows = [(end, "loss", "iid", mean * factor) for factor in (0.5, 1.0, 2.0)]
        rows += [(first, "loss", "iid", 9.0), (end, "loss", "scale2", 0.01), (end, "alignment", "iid", 0.1)]
        rows += [(end - 1, "diverged", "iid", 1.0)] if np.isnan(mean) else []
        return pd.DataFrame(rows, columns=["step", "measure", "condition", "value"])

    monkeypatch.setattr("modtf.experiments.modarch.scorecard.card.load_history", load_history)
    line = search_of(FULL, trials, "out")
    assert line == {
        "arch": "mlp",
        "variant": "modular",
        "model_options": trials[1e-2].columns["model_options"],
        "losses": {"0.003": 0.4, "0.01": 0.3, "0.03": None},
    }
    assert FULL.final(trials, line) == FULL.cell("mlp", "modular", 1e-2, **start)


def test_a_card_is_what_was_written(tmp_path, reference):
    reference["rows"][0] |= {"loss": None, "alignment": None}  # it diverged
    card.write_card(tmp_path / "card.json", reference)
    assert card.read_card(tmp_path / "card.json", FULL) == reference
    assert (tmp_path / "card.json").read_text().count("\n") == len(
        reference["search"] + reference["rows"]
    ) + 10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "modtf-1", "search": []}, "has version modtf-1 with .*versions cannot be compared"),
        ({"tasks": "0123"}, f"the tasks 0123; expected modtf-3 with the tasks {FULL.hash}"),
        ({"search": []}, "is not a scorecard.*no learning rate of"),
        ({"rows": []}, "is not a scorecard"),
        ({"rows": [{"arch": "mlp"}]}, "is not a scorecard"),
        ({"rows": rows("mine", "low", 0.5)}, "is not a scorecard"),
        ({"rows": 2 * rows("mine", 1.0, 0.5)}, "is not a scorecard.*holds 70 value"),
        ({"rows": rows("mine", 1.0, 0.5, archs=["mha"])}, "is not a scorecard"),
    ],
)
def test_what_is_no_card_of_the_version_is_refused(change, words, tmp_path):
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps({**card_with(rows("mine", 1.0, 0.5)), **change}))
    with pytest.raises(ValueError, match=words):
        card.read_card(path, FULL, "theirs")


def test_a_card_of_a_few_steps_is_another_version(tmp_path):
    card.write_card(tmp_path / "smoke.json", card_with(rows("mine", 1.0, 0.5), frozen=SMOKE))
    with pytest.raises(ValueError, match="has version modtf-3-smoke"):
        card.read_card(tmp_path / "smoke.json", FULL)


def test_what_equals_a_row_differs_from_it_by_nothing(reference):
    found = compare.differences(study_with(reference, rows("mine", 2.0, 0.8)), NAME)
    same = found[found["variant"] == "modular"]
    assert len(same) == 14  # seven scores of two kinds
    assert (same[["gain", "low", "high"]] == 0).all(axis=None)
    assert (same["p_corrected"] == 1).all()
    assert (same["verdict"] == "undecided").all()


def test_what_is_always_better_is_better(reference):
    found = compare.differences(study_with(reference, rows("mine", 1.5, 0.4)), NAME).set_index(
        ["kind", "score", "variant"]
    )
    assert not [name for _, _, name in found.index if name.startswith("clamped")]
    for kind in ("MLP regression", "RNN regression"):
        for score in ("loss in", "loss out"):
            assert found.loc[(kind, score, "modular"), "gain"] == pytest.approx(1 - 1.5 / 2)
            assert found.loc[(kind, score, "modular"), "verdict"] == "better"
            assert found.loc[(kind, score, "gt_modular"), "gain"] == pytest.approx(1 / 1.5 - 1)
            assert found.loc[(kind, score, "gt_modular"), "verdict"] == "worse"
        assert found.loc[(kind, "alignment", "modular"), "gain"] == pytest.approx(0.4)


def place(study, variant):
    found = compare.places(study)
    return found[found["variant"] == variant].set_index(["distribution", "quantity"])["mean"].unstack()


def test_the_oracle_costs_itself(reference):
    found = place(study_with(reference, rows("mine", 1.5, 0.4)), "gt_modular")
    assert (found["alignment"] == 0).all()
    assert (found.drop(columns="alignment") == 1).all(axis=None)


def test_a_router_among_fixed_routings(reference):
    """Between 1.25 and 1.5 times, or 1.5 and twice: halfway, as logarithms go."""
    found = place(study_with(reference, rows("mine", 1.6, 0.375)), NAME)
    assert found["cost"].to_numpy() == pytest.approx(1.6)
    assert found["weighted"].to_numpy() == pytest.approx(np.sqrt(1.25 * 1.5))
    assert found["sampled"].to_numpy() == pytest.approx(np.sqrt(1.5 * 2))
    assert found["beyond sampled"].to_numpy() == pytest.approx(1.6 / np.sqrt(1.5 * 2))


def test_a_task_whose_oracle_diverged_is_left_out(reference):
    study = study_with(reference, rows("mine", 1.6, 0.375))
    lost = (study.results["variant"] == "gt_modular") & (study.results["data_seed"] == TASKS[0])
    study.results.loc[lost, "value"] = np.inf
    found = compare.places(study)
    assert set(found["num_tasks"]) == {len(TASKS) - 1}
    assert place(study, NAME)["cost"].to_numpy() == pytest.approx(1.6)


@pytest.mark.parametrize("lost", [0, 1])
def test_the_verdict_says_how_many_models_diverged(lost, reference):
    study = study_with(reference, rows("mine", 1.6, 0.375))
    own = (study.results["variant"] == NAME) & study.results["data_seed"].isin(TASKS[:lost])
    study.results.loc[own & study.results["measure"].isin(["loss", "error"]), "value"] = np.nan
    lines = compare.verdict(study, NAME, compare.differences(study, NAME), lambda *_: [])
    assert [line for line in lines if "diverged" in line] == [f"2 of the models of {NAME} diverged."] * lost


def rates(reference):
    return {arch: rates_table({"": reference}, arch, FULL) for arch in FULL.protocols}


def test_the_page(reference, tmp_path):
    study = study_with(reference, rows("mine", 1.6, 0.4))
    path, verdict, short = page.write_page(
        study, NAME, rates(reference), tmp_path, compare.routing_words, ["corrected"]
    )
    text = path.read_text()
    pictures = {"rows_mlp_regression.png", "rows_rnn_regression.png", "places.png"}
    assert {file.name for file in tmp_path.iterdir()} == {page.PAGE, page.DIFFERENCES, *pictures}
    assert "MLP regression: learning rates" in text
    assert rates(reference)["rnn"].to_dict("records")[0] == {
        "variant": "gt_modular",
        "0.001": "diverged",
        "0.01": "2 *",
        "0.1": "3",
    }
    assert (
        text.index('class="findings"') < text.index("corrected") < text.index("<table") < text.index("<img")
    )
    assert verdict[0].startswith("mine (this run) beats 1 of 2 reference models in loss (MLP regression): ")
    assert verdict[-1].startswith("MLP regression: alignment 0.40, ")
    assert verdict[-1].endswith("as if 8.5 of 16 did all.")
    shown = re.sub(r"<[^>]+>", "", text)
    assert all(line.replace("'", "&#39;") in shown for line in [*verdict, *short])
    assert short[0] == "MLP regression, loss in: of 2 rows better than 1, worse than 1, undecided 0."
    assert len([line for line in short if "alignment 0.40" in line]) == 2
    assert short[-1].startswith("70 models in all, one seed on each of 5 tasks")


@pytest.mark.parametrize(
    "own",
    [
        pytest.param(rows("mine", 1.6, None), id="a network without modules"),
        pytest.param(rows("mine", 1.6, 0.4, archs=["rnn"]), id="the mlp refused it"),
        pytest.param(rows("mine", float("nan"), 0.4), id="it diverged"),
    ],
)
def test_the_page_of_what_has_no_place(reference, own, tmp_path):
    study = study_with(reference, own)
    path, verdict, short = page.write_page(study, NAME, rates(reference), tmp_path, compare.routing_words)
    assert path.exists()
    assert not [line for line in short if "alignment" in line or "nan" in line]
    assert not [line for line in verdict if "nan" in line]


def test_a_language_card(tmp_path):
    """A router with half of every loss of the reference's, and its own bits."""
    frozen = languages.SMOKE
    reference = card.reference(frozen)
    own = {**reference, "search": reference["search"][:1], "rows": []}
    for row in (row for row in reference["rows"] if row["variant"] == "modular"):
        bits = {"language_bits": 1.0, "language_bits_chance": 0.1, "word_bits": 2.0, "word_bits_chance": 0.2}
        own["rows"].append({**row, **bits, "loss": 0.5 * row["loss"]})
    cards = {"": reference, card.OURS: own}
    name, tables = card.name_of(own, card.OURS), {"languages": rates_table(cards, "languages", frozen)}
    study = card.study_of(frozen, cards)
    path, verdict, _ = page.write_page(study, name, tables, tmp_path, languages.describe)
    assert verdict[0].startswith("modular (this run) beats 4 of 4 reference models in loss (Languages")
    assert verdict[1:] == [
        "The choice of its experts holds 1.00 bits about the language (chance 0.10) and 2.00 about the word "
        "(chance 0.20), means over 2 layers."
    ]
    assert "fixed routing" not in path.read_text()
    assert list(tables["languages"]["variant"])[:2] == ["modular", "switch"]
    assert [name for name in map(str, study.results["variant"].unique()) if "(" in name] == [name]
