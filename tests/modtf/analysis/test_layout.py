"""Looks of variants, and panels of any table."""

from pathlib import Path

import pandas as pd
import pytest

from modtf.analysis.figures import panels
from modtf.analysis.figures.layout import looks
from modtf.families import FAMILIES


def test_as_many_variants_as_there_are_routers_can_be_told_apart():
    names = [path.stem for path in (Path(__file__).parents[3] / "models" / "routers").glob("[a-z]*.py")]
    assert len(set(looks(pd.Series(names)).values())) == len(names) > 10


@pytest.mark.parametrize("arch", FAMILIES)
def test_no_two_variants_of_a_family_look_alike(arch):
    names = [variant.name for variant in FAMILIES[arch].variants][:12]
    assert len(set(looks(pd.Series(names)).values())) == len(names)


def test_any_table_can_be_drawn_in_panels():
    table = pd.DataFrame({"variant": ["mine", "yours"], "side": ["left: 1", "right"], "up": [2, 1]})

    def mark(axes, part, looks):
        axes.plot(part["up"], "o", label=part["variant"].iloc[0])

    picture = panels(mark, table, "name", "Title", "A note.", row="up", column="side")
    titles = [axes.get_title() for axes in picture.figure.axes]
    assert titles == ["Left, 1", "right", "", ""]
    assert [axes.get_ylabel() for axes in picture.figure.axes[::2]] == ["up = 1", "up = 2"]
    assert [axes.texts[0].get_text() for axes in picture.figure.axes if axes.texts] == ["not run"] * 2
    assert [text.get_text() for text in picture.figure.subfigs[0].legends[0].get_texts()] == ["mine", "yours"]
