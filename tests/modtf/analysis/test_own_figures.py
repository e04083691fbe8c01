"""Figures of a user, registered beside ours."""

import subprocess
import sys

import numpy as np
import pytest

from modtf.analysis import with_kinds
from modtf.analysis.figures import FIGURES, NothingToDraw, bars, means, register_figure


@pytest.fixture
def seconds():
    """The figure that the documentation shows."""

    @register_figure("seconds")
    def draw(study, choice):
        rows = with_kinds(study.results.query("measure == 'seconds'"))
        if rows.empty:
            raise NothingToDraw("no model was timed")
        yield means(study, rows, bars, None, "seconds", "Seconds of training", row="kind", column="num_rules")

    yield draw
    del FIGURES._objects["seconds"], FIGURES._origins["seconds"]


def test_a_figure_of_a_user_stands_beside_the_others(seconds, foreign):
    assert list(FIGURES)[-1] == "seconds"
    (picture,) = foreign.figure("seconds")
    np.testing.assert_allclose(picture.table["mean"], 12.0)
    (legend,) = picture.figure.subfigs[0].legends
    assert legend.get_texts()[-1].get_text() == "sparse"


def test_what_cannot_be_called_with_a_study_and_a_choice_is_refused():
    for wrong in (lambda study: None, lambda a, b, c: None, 3):
        with pytest.raises(ValueError, match=r"figure 'wrong' must be a function draw\(study, choice\)"):
            FIGURES.add("wrong", wrong, "here:wrong")
    with pytest.raises(ValueError, match="there already"):
        register_figure("ranking")(lambda study, choice: iter(()))


def test_names_are_listed_without_drawing_libraries():
    code = (
        "import sys; from modtf.analysis.figures import FIGURES; assert 'ranking' in FIGURES;"
        "assert not {'matplotlib', 'seaborn', 'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
