"""Looks of variants."""

from pathlib import Path

import pandas as pd
import pytest

from modtf.analysis.figures.layout import looks
from modtf.families import FAMILIES


def test_as_many_variants_as_there_are_routers_can_be_told_apart():
    names = [path.stem for path in (Path(__file__).parents[3] / "models" / "routers").glob("[a-z]*.py")]
    assert len(set(looks(pd.Series(names)).values())) == len(names) > 10


@pytest.mark.parametrize("arch", FAMILIES)
def test_no_two_variants_of_a_family_look_alike(arch):
    names = [variant.name for variant in FAMILIES[arch].variants][:12]
    assert len(set(looks(pd.Series(names)).values())) == len(names)
