"""Methods, claims and figures on simulated results."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from modtf.analysis.figures import NothingToDraw
from modtf.analysis.figures.layout import Look
from modtf.analysis.learned import variants_learned
from modtf.analysis.study import Study
from modtf.experiments.corruptions import COMPOSED, ELEMENTAL
from modtf.experiments.corruptions.accuracy import PARTS, ceiling, differences, methods, table_1, trainings
from modtf.experiments.corruptions.claims import (
    correlations,
    lowest_severity_is_easier,
    modular_spreads_at_three,
    single_corruptions_are_learned,
)
from modtf.experiments.corruptions.examples import EXAMPLES, SHOWN
from modtf.experiments.corruptions.figures import _scatter, parts_by_kind
from modtf.results.schema import COLUMNS
from modtf.tasks.protocol import Protocol
from modtf.tasks.task import Task


def test_a_method_is_what_was_trained_longest():
    """Among equally long ones it is the most accurate in distribution, here on test images."""
    of = {"erm": (1, 9.0), "erm (longer=4)": (4, 20.0), "modular (search=0.2)": (2, 8.0)}
    of |= {"modular (sites=1)": (1, 7.0), "routed (site=3)": (1, 6.0), "routed (site=4)": (1, 5.0)}
    frame = pd.DataFrame({"variant": pd.Categorical(list(of)), "measure": "error", "condition": "iid"})
    frame = frame.assign(**dict(zip(("steps", "value"), zip(*of.values(), strict=True), strict=True)))
    study: Any = SimpleNamespace(results=frame.assign(data_seed=0), history=frame[:0], checkpoint="tail")
    names = methods(frame, study)["variant"].tolist()
    assert names == ["erm (less)", "erm", "modular", "modular (sites=1)", "routed (site=3)", "routed"]


def test_options_of_which_a_model_diverged_do_not_represent_a_method():
    """Without the lost task, site 3 would have the smaller mean."""
    of = [("routed (site=3)", 5.0), ("routed (site=3)", np.nan), ("routed (site=4)", 6.0)]
    frame = pd.DataFrame(of, columns=["variant", "value"])
    frame = frame.assign(variant=pd.Categorical(frame["variant"]), measure="error", condition="iid")
    frame["data_seed"] = [0, 1, 0]
    study: Any = SimpleNamespace(
        results=frame.assign(steps=1), history=frame.assign(step=1), checkpoint="tail"
    )
    assert methods(frame, study)["variant"].tolist() == ["routed (site=3)"] * 2 + ["routed"]


def test_validation_images_of_shared_tasks_choose_the_options_of_a_method():
    """On test images, and on all its tasks, site 3 is better."""
    of = [("routed (site=3)", 0, 1, 9.0), ("routed (site=3)", 0, 2, 6.0), ("routed (site=3)", 1, 2, 1.0)]
    of += [("routed (site=4)", 0, 1, 9.0), ("routed (site=4)", 0, 2, 5.0)]
    history = pd.DataFrame(of, columns=["variant", "data_seed", "step", "value"])
    history = history.assign(variant=pd.Categorical(history["variant"]), measure="error", condition="iid")
    results = history[history["step"] == 2].rename(columns={"step": "steps"}).assign(value=[1.0, 1.0, 2.0])
    study: Any = SimpleNamespace(results=results, history=history, checkpoint="tail")
    assert methods(results, study)["variant"].tolist() == ["routed (site=3)"] * 2 + ["routed"]


@pytest.mark.parametrize(("checkpoint", "chosen"), [("tail", "routed (site=3)"), ("last", "routed (site=4)")])
def test_under_a_schedule_the_last_step_chooses(checkpoint, chosen):
    errors = {"routed (site=3)": [1.0] * 20 + [9.0], "routed (site=4)": [5.0] * 21}
    rows = [(name, 0, step, value) for name, values in errors.items() for step, value in enumerate(values)]
    history = pd.DataFrame(rows, columns=["variant", "data_seed", "step", "value"])
    history = history.assign(variant=pd.Categorical(history["variant"]), measure="error", condition="iid")
    results = history[history["step"] == 20].rename(columns={"step": "steps"})
    study: Any = SimpleNamespace(results=results, history=history, checkpoint=checkpoint)
    other = next(name for name in errors if name != chosen)
    assert set(methods(results, study)["variant"]) == {"routed", other}


FIXED = "trainer.sites=[1; 1; 1; 1; 1; 1]"
START = {("erm", ""): 60.0, ("contrastive", ""): 61.0, ("modular", ""): 70.0, ("modular", FIXED): 68.0}
SPREAD = {("modular", ""): 4.0}
KIND = ("corruptions", "categorical", "dataset=digits")
LOWEST = (*KIND[:2], "dataset=digits,severity=lowest")


def rows(severity, gain, models):
    """Accuracy falls by 5 points with every corruption; models of a spread lie on both sides of it."""
    options = "dataset=digits" + (",severity=lowest" if severity == "lowest" else "")
    for variant, trainer in models:
        for seed in range(6):
            off = SPREAD.get((variant, trainer), 0.1) * (-1) ** seed * (1 + seed / 10)
            for condition, parts in [*PARTS.items(), ("iid", 1)]:
                accuracy = START[variant, trainer] + gain - 5 * parts + off
                yield (
                    *("corruptions", "categorical", options, 7, 1, 16, variant, trainer, seed, 0, 10, 5),
                    *("best", "error", condition, "", 100.0 - accuracy),
                )


def results(gain=3.0, lowest=(("erm", ""), ("modular", ""))):
    frame = pd.DataFrame([*rows("main", 0, START), *rows("lowest", gain, lowest)], columns=list(COLUMNS))
    return frame.assign(protocol="p", folder="f")


def study(gain=3.0, lowest=(("erm", ""), ("modular", ""))):
    return Study(results(gain, lowest))


def verdicts(study, *names):
    judged = study.claims(names or None)
    return judged.groupby(["task_options", "claim"], sort=False)["verdict"].first()


def test_the_lowest_severity_is_held_against_the_main_one():
    name = "lowest_severity_is_easier"
    judged = verdicts(study(), name)
    assert judged.to_dict() == {
        ("dataset=digits", name): "not enough runs",
        ("dataset=digits,severity=lowest", name): "supported",
    }
    assert verdicts(study(gain=-3.0), name).iloc[1] == "contradicted"
    assert verdicts(study(lowest=[]), name).tolist() == ["not enough runs"]


def test_severities_are_compared_at_one_checkpoint():
    """At the last checkpoint both are 20 points less accurate, so the gain is the same."""
    frame = results()
    last = frame.assign(checkpoint="last", value=frame["value"] + 20)
    judged = Study(pd.concat([frame, last], ignore_index=True)).claims(["lowest_severity_is_easier"])
    of_lowest = judged[judged["task_options"].str.contains("lowest")]
    assert set(of_lowest["verdict_best"]) == set(of_lowest["verdict_last"]) == {"supported"}


def test_a_severity_that_was_trained_otherwise_is_not_compared():
    frame = results()
    other = frame["task_options"].str.contains("lowest") & (frame["variant"] == "erm")
    frame.loc[other, "protocol"] = "p@0.1"
    found = {piece.name: piece.lacking for piece in lowest_severity_is_easier(Study(frame).part(*LOWEST))}
    assert list(found) == ["erm", *(f"modular, k = {parts}" for parts in (2, 3, 4))]
    assert found["erm"] == "trained in another way than at the main severity"


def test_published_numbers_stand_below_the_same_images_only():
    frame = results()
    simulated = Study(frame.assign(task_options=frame["task_options"].str.replace("digits", "emnist")))
    main, lowest = (table_1(simulated.part(*KIND[:2], options)) for _, _, options in simulated.kinds)
    assert "published" in main
    assert "published" not in lowest


def test_rates_are_those_of_finished_cells_and_of_all_their_stages():
    def cell(variant, options, rate, is_finished, trainer=None):
        named = dict(zip(("arch", "setting", "task_options"), KIND, strict=True))
        protocol = SimpleNamespace(training=SimpleNamespace(learning_rate=rate))
        return SimpleNamespace(
            cell={**named, "variant": variant, "model_options": options},
            definition=SimpleNamespace(protocol=protocol, variant=variant, trainer=trainer or {}),
            is_finished=is_finished, path="",
        )  # fmt: skip

    cells: list[Any] = [cell(*one, rate, rate == 0.01) for one in START for rate in (0.01, 0.1)]
    lines = trainings(Study(results(), cells=cells).part(*KIND)).splitlines()[2:]
    found = {line.split("|")[1].strip(): line.split("|")[2].strip() for line in lines}
    modular = dict.fromkeys(("modular", f"modular ({FIXED})"), "0.01, id_rate 0.1")
    assert found == {"erm": "0.01", "contrastive": "0.01", **modular}
    given = [cell("modular", "", 0.01, True, {"id_rate": 0.3})]
    assert "| modular | 0.01, id_rate 0.3 |" in trainings(Study(results(), cells=given).part(*KIND))


def test_correlations_of_constant_models_are_not_numbers():
    model = {"arch": "a", "setting": "b", "task_options": "", "width": 1, "variant": "erm", "seed": 0}
    frame = pd.concat([
        pd.DataFrame({"data_seed": task, "first": [1.0, 2.0, 4.0], "second": second}).assign(**model)
        for task, second in enumerate(([1.0, 2.0, 4.0], [10.0, 10.0, 10.0]))
    ])  # fmt: skip
    np.testing.assert_allclose(correlations(frame, "first", "second")["r"], [1.0, np.nan])


def test_the_spread_at_three_is_that_of_sites():
    judged = study().claims(["modular_spreads_at_three"])
    main = judged[judged["task_options"] == "dataset=digits"].set_index("evidence")
    assert list(main["evidence_verdict"]) == ["supported"] * 3
    expected = np.mean([(4.0 - 0.1) * abs((-1) ** seed * (1 + seed / 10) + 0.05) for seed in range(6)])
    np.testing.assert_allclose(main["value"], expected, rtol=0.1)


def test_single_corruptions_are_held_against_the_clean_network_of_the_same_task(monkeypatch):
    """Tasks differ by up to 25 points. A method that is better by more than 4 points supports the claim."""
    monkeypatch.setitem(SPREAD, ("modular", ""), 0.2)
    name, frame = "single_corruptions_are_learned", results(lowest=[])
    frame["value"] -= 5.0 * frame["data_seed"] - 10.0
    frame.loc[frame["variant"] == "erm", "value"] -= 20.0
    frame.loc[frame["variant"] == "contrastive", "value"] -= 8.0
    judged = Study(frame).claims([name]).set_index("evidence")
    assert judged["evidence_verdict"].tolist() == ["supported"] * 3, judged[["value", "low", "high"]]
    np.testing.assert_allclose(judged["value"], [10.0, -1.0, 0.0], atol=0.5)
    frame.loc[frame["variant"] == "erm", "value"] += 20.0
    assert verdicts(Study(frame), name).tolist() == ["contradicted"]


def test_the_published_ceiling_is_that_of_the_published_width_and_protocol():
    """The clean network of modular, if there is one, takes its place."""
    task = Task("corruptions", dataset="emnist")
    published, quick = (make(task).training for make in (Protocol.published, Protocol.quick))
    frame = results(lowest=[]).replace({"task_options": {"dataset=digits": "dataset=emnist"}})
    plain = frame[frame["variant"] == "erm"]

    def study_of(rows, width, training):
        named = dict(zip(("arch", "setting", "task_options"), (*KIND[:2], "dataset=emnist"), strict=True))
        defined = SimpleNamespace(task=task, width=width, protocol=SimpleNamespace(training=training))
        values = {**named, "variant": "erm", "model_options": ""}
        cell: Any = SimpleNamespace(cell=values, definition=defined, path="")
        return Study(rows, cells=[cell]).part(*named.values())

    other_rate = replace(published, learning_rate=0.5)
    assert ceiling(study_of(plain, 64, published)) == ceiling(study_of(plain, 64, other_rate)) == 89.0
    for width, training in ((16, published), (64, quick)):
        part = study_of(plain, width, training)
        assert np.isnan(ceiling(part))
        (found, *_) = single_corruptions_are_learned(part)
        assert found.lacking == "no clean network: no modular, and not the published protocol"
    (found, *_) = single_corruptions_are_learned(study_of(plain, 64, published))
    assert abs(found.value - (55.0 - 89.0)) < 0.5
    assert abs(ceiling(study_of(frame[frame["model_options"] == ""], 64, published)) - 65.0) < 1.0


def test_spreads_are_compared_on_the_same_tasks():
    """erm has the last three tasks alone; among these modular differs by 0.6 times its spread, not by 4."""
    frame = results(lowest=[])
    frame = frame[(frame["variant"] != "erm") | (frame["data_seed"] > 2)]
    found = {piece.name: piece for piece in modular_spreads_at_three(Study(frame).part(*KIND))}
    off = np.array([(-1) ** seed * (1 + seed / 10) for seed in (3, 4, 5)])
    expected = (4.0 - 0.1) * np.abs(off - off.mean()).mean()
    assert (found["against erm"].num_tasks, found["against contrastive"].num_tasks) == (3, 6)
    np.testing.assert_allclose(found["against erm"].value, expected, rtol=1e-5)


def test_the_spread_of_given_sites_is_not_judged():
    frame = results(lowest=[])
    frame = frame[(frame["variant"] != "modular") | (frame["model_options"] == FIXED)]
    [found] = modular_spreads_at_three(Study(frame).part(*KIND))
    assert found.lacking == "its sites were given, not searched for"


def test_claims_of_the_first_experiment_are_not_judged():
    first = {"gt_modular_wins", "modular_op_beats_modular", "learned_activation_collapses"}
    assert not first & set(study().claims()["claim"])


def test_differences_are_corrected_as_one_family():
    """With 6 tasks at 6 numbers of corruptions all are sure, except one that hardly differs."""
    lines: dict[str, str] = {}
    for line in differences(study().part(*KIND)).splitlines():  # a wide table folds
        lines[line.split("  ")[0]] = lines.get(line.split("  ")[0], "") + line
    assert lines["modular"].count("*") == lines[f"modular ({FIXED})"].count("*") == 6
    assert "+9.8 (4.2 to 15.5)*" in lines["modular"]  # 10 less 3.9 times the mean of the signed spreads
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(START, ("contrastive", ""), 60.01)
        patch.setitem(SPREAD, ("contrastive", ""), 1.0)
        unsure = differences(study().part(*KIND)).splitlines()
    counts = [line.count("*") for line in unsure if line.startswith("contrastive")]
    assert counts
    assert not any(counts)


def test_methods_that_did_not_learn_have_no_star_and_are_not_in_pictures_of_invariance():
    simulated = study()
    simulated.results.loc[simulated.results["variant"] == "erm", "value"] = 90.0
    part = simulated.part(*KIND)
    assert set(variants_learned(part)) == {"contrastive", "modular", f"modular ({FIXED})"}
    assert "*" not in differences(part), "the reference has not learned"


def test_the_correlation_of_a_picture_has_no_p_because_compositions_are_no_sample_of_tasks():
    points = pd.DataFrame({"variant": "erm", "x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.0, 5.0]})
    for learned, words in ((True, "erm 0.98"), (False, "")):
        axes = Figure().subplots()
        _scatter(axes, points.assign(learned=learned), {"erm": Look("black", "o")})
        assert axes.get_xlabel() == words


def test_the_picture_of_invariance_and_its_note_are_of_models_with_scores():
    """One model of erm has no active unit. Its accuracy, far below others, is not in the picture."""
    frame, rng = results(lowest=[]), np.random.default_rng(0)
    composed = frame["condition"].map(PARTS) > 1
    lost = (frame["variant"] == "erm") & (frame["data_seed"] == 0)
    frame.loc[lost & composed, "value"] = 90.0
    made = np.where(lost, np.nan, rng.uniform(0, 1, len(frame)))
    scores = (frame[composed].assign(measure=name, value=made[composed]) for name in (ELEMENTAL, COMPOSED))
    simulated = Study(pd.concat([frame, *scores], ignore_index=True))
    [picture] = simulated.figure("corruptions_invariance")
    assert "At least 5 models of every variant; width 16; " in picture.note
    assert "; 1 model without scores left out" in picture.note
    table = picture.table
    pairs = table[(table["variant"] == "erm") & (table["parts"] == 2)]["accuracy"]
    assert (abs(pairs - 50.0) < 0.2).all()


def test_pictures_of_a_derived_family_have_names_of_their_own():
    kinds = [KIND, ("solarised", *KIND[1:]), LOWEST]
    study: Any = SimpleNamespace(kinds=kinds, part=lambda *kind: kind)
    names = ["digits", "solarised_digits", "digits_lowest"]
    assert parts_by_kind(study) == list(zip(names, kinds, strict=True))


def test_figures_show_every_method():
    simulated = study(lowest=[])
    for name in ("corruptions_accuracy", "corruptions_conditions"):
        pictures = simulated.figure(name)
        assert pictures
        assert all(picture.table["variant"].nunique() == len(START) for picture in pictures)
    with pytest.raises(NothingToDraw, match="invariance"):
        simulated.figure("corruptions_invariance")
    lost = (simulated.results["variant"] == "erm") & (simulated.results["data_seed"] > 0)
    simulated.results.loc[lost, "value"] = np.nan
    (note,) = {picture.note for picture in simulated.figure("corruptions_accuracy")}
    assert "At least 1 model of every variant; width 16; " in note
    assert "Incomplete: 5 models diverged and are left out" in note


def test_examples_show_each_image_under_each_corruption():
    [picture] = study(lowest=[]).figure("corruptions_examples")
    shown = [np.asarray(axes.images[0].get_array(), int) for axes in picture.figure.axes]
    columns = list(EXAMPLES.values())
    assert len(shown) == len(picture.table) == SHOWN * len(columns)
    plain, inverted = (shown[columns.index(title)] for title in ("no corruption", "IN: inversion"))
    np.testing.assert_array_equal(inverted, 255 - plain)
    answers = [axes.get_ylabel() for axes in picture.figure.axes if axes.get_ylabel()]
    assert answers == list(dict.fromkeys(picture.table["answer"]))


def test_a_mean_over_widths_is_said_and_counts_the_models_of_every_width():
    frame = results(lowest=[])
    both = Study(pd.concat([frame, frame.assign(width=64)]))
    (note,) = {picture.note for picture in both.figure("corruptions_accuracy")}
    assert "At least 12 models of every variant; means over width 16, 64; " in note


def test_a_task_type_that_cannot_be_drawn_does_not_end_the_others():
    frame = study().results
    parts, main = frame["condition"].map(PARTS), frame["task_options"] == KIND[2]
    for figure, known, expected in (
        ("corruptions_accuracy", 1, ["corruptions_accuracy_digits"]),
        ("corruptions_conditions", 2, ["corruptions_pairs_digits", "corruptions_all_digits"]),
    ):
        pictures = Study(frame[main | (parts == known)]).figure(figure)
        assert [picture.name for picture in pictures] == expected
