"""The figures of languages on made results whose numbers are known."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import modtf
from modtf.analysis.figures import FIGURES, Choice, NothingToDraw
from modtf.analysis.table import table_cells
from modtf.experiments.languages import figures
from modtf.experiments.languages.family import LANGUAGE, LANGUAGE_CHANCE, WORD, WORD_CHANCE
from modtf.pages.pictures import NotMeant


class Study:
    """Two routers, two corpora, two evaluations; the loss and the bits follow from the names."""

    level = 0.95

    def __init__(self):
        shared = {"arch": "languages", "kind": "Languages rows", "num_rules": 8, "width": 32, "seed": 0}
        shared |= {"condition": "iid", "protocol": "p", "setting": "distribution", "task_options": "law=rows"}
        rows = []
        for variant, bits in (("hash", 0.1), ("switch", 0.5)):
            for data_seed in (0, 1):
                for step in (0, 100):
                    one = {
                        **shared,
                        "variant": variant,
                        "data_seed": data_seed,
                        "step": step,
                        "folder": variant,
                    }
                    rows.append({**one, "measure": "loss", "place": "", "value": 1 - bits - step / 1000})
                    for measure in (LANGUAGE, WORD, LANGUAGE_CHANCE, WORD_CHANCE):
                        value = 0.02 if "chance" in measure else bits
                        rows.append({**one, "measure": measure, "place": "layer2", "value": value})
        self.history = pd.DataFrame(rows).astype({"variant": "category"})
        self.results = self.history[self.history["step"] == 100].drop(columns="step")


@pytest.mark.parametrize("draw", [figures.over_training, figures.against_information])
def test_the_numbers_drawn_are_those_of_the_results(draw, monkeypatch):
    monkeypatch.setattr(figures, "counts", lambda study, table: "two models")
    [picture] = draw(Study(), None)
    assert "labels of other tokens give at most 0.02 bits" in picture.note
    data = picture.table
    if draw is figures.over_training:
        last = data[(data["step"] == 100) & (data["variant"] == "switch")].set_index("measure")["mean"]
        np.testing.assert_allclose(last[["loss", LANGUAGE, WORD]], [0.4, 0.5, 0.5])
    else:
        points = data.set_index("variant")[["x", "mean"]].astype(float)
        np.testing.assert_allclose(points.loc[["hash", "switch"]], [[0.1, 0.8], [0.5, 0.4]])


ARCHIVE = Path(__file__).parents[4] / "docs" / "study" / "languages_four.zip"


def test_every_figure_takes_results_under_four_conditions():
    study = modtf.Study.read([ARCHIVE])
    drawn = []
    for name, draw in FIGURES.items():
        try:
            drawn += [name] * len(list(draw(study, Choice())))
        except (NothingToDraw, NotMeant):
            continue
    assert {"languages_training", "performance_vs_seq_len"} <= set(drawn)


def test_the_table_shows_bits_in_distribution():
    study = modtf.Study.read([ARCHIVE])
    rows = study.results[(study.results["measure"] == LANGUAGE) & (study.results["place"] == "layer2")]
    rows = rows[rows["condition"] == "iid"].set_index("variant")["value"]
    header, cells = table_cells(study.results)
    column = header.index("language bits\nlayer2")
    assert {cell[0]: cell[column] for cell in cells} == {name: f"{bits:.3f}" for name, bits in rows.items()}
