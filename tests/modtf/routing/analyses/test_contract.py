"""Contract of analyses: these tests cover every registered one, new ones included."""

from importlib import import_module

import numpy as np
import pandas as pd
import processes
import pytest
from ignorant_routers import counts_of, coverage, ignorant, unrelated

import modtf
from modtf.routing import ANALYSES, Analysis
from modtf.routing.analyses.registry import COLUMNS, NEEDS
from modtf.routing.report.sections import analysed_sections

NAMES = list(ANALYSES)


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All analyses of one router, and the folder that they were written to."""
    out = tmp_path_factory.mktemp("analyses")
    found = modtf.analyse_routing(ignorant(0), against=unrelated(ignorant(0), 1))
    sections = analysed_sections(found, out, modtf.read_routing(ignorant(0)).names)
    assert len(sections) == 1
    return found, out


@pytest.mark.parametrize("name", NAMES)
def test_the_table(name, everything):
    found = everything[0].found[name]
    assert set(COLUMNS) <= set(found.table)
    table = found.table.astype(dict.fromkeys(COLUMNS[3:], float))
    assert np.isfinite(table["value"]).any()
    layer = table[table["item"] == ""]
    assert set(layer["layer"]) <= {0, 1}
    assert not layer.duplicated(["layer", "measure"]).any()
    for low, high in (("low", "high"), ("chance_low", "chance_high")):
        known = table[low].notna()
        assert (table[low] <= table[high])[known].all()
    assert layer["chance_low"].notna().any(), "no chance level"
    assert layer["low"].notna().any(), "no interval over documents"


@pytest.mark.parametrize("name", NAMES)
def test_the_files(name, everything):
    found, out = everything
    assert (out / "analyses" / f"{name}.csv").is_file()
    assert found.found[name].pictures
    for picture in found.found[name].pictures:
        assert (out / "analyses" / f"{picture.name}.png").read_bytes().startswith(b"\x89PNG")
    assert found.found[name].sentences
    assert all(text[-1] in ".:" for text in found.found[name].sentences)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same(name, everything):
    again = modtf.analyse_routing(ignorant(0), name, against=unrelated(ignorant(0), 1)).found[name]
    pd.testing.assert_frame_equal(again.table, everything[0].found[name].table)
    assert again.sentences == everything[0].found[name].sentences


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_chance_band_holds_95_in_100(name):
    """Values that equal a limit, such as numbers of experts, count as inside; without them it is less."""
    for measure, (inside, limit, above) in coverage(name, 500).items():
        assert inside >= 0.93, (measure, inside, above)
        assert inside - limit <= 0.97, (measure, inside, limit)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_one_line(name):
    arrays = {key: ignorant(0)[key] for key in ("experts", "num_experts")}
    for given in (arrays, counts_of(ignorant(0))):
        found = modtf.analyse_routing(given, name, permutations=2)
        assert set(found.found) | set(found.missing) == {name}
        assert all("\n" not in line and len(line) < 200 for line in found.missing.values())


def test_no_permutations_no_chance():
    for name, found in modtf.analyse_routing(ignorant(0), permutations=0).found.items():
        assert found.table["chance"].isna().all(), name


def test_registration_refuses_what_is_incomplete():
    texts = dict.fromkeys(("title", "about", "definition", "source", "null"), "x")
    with pytest.raises(ValueError, match="expected a subclass of"):
        modtf.register_analysis("mine")(dict)
    with pytest.raises(ValueError, match="has no source; expected a sentence"):
        modtf.register_analysis("mine")(type("Mine", (Analysis,), texts | {"source": ""}))
    with pytest.raises(ValueError, match=f"needs 'tea'; expected some of {next(iter(NEEDS))}"):
        modtf.register_analysis("mine")(type("Mine", (Analysis,), texts | {"needs": ("tea",)}))
    with pytest.raises(ValueError, match=r"Unknown analysis: 'loads'.*Did you mean"):
        modtf.analyse_routing(ignorant(0), "loads")


def test_options_are_checked():
    for wrong in ({"permutations": -1}, {"confidence": 2}, {"seed": "x"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            modtf.analyse_routing(ignorant(0), "load", **wrong)
    few = {"experts": np.eye(5, dtype=int), "num_experts": 8}
    with pytest.raises(ValueError, match="against has 5 tokens"):
        modtf.analyse_routing(ignorant(0), "load", against=few)


def test_choices_are_sorted_by_document_and_weight():
    arrays = ignorant(0)
    shuffled = np.random.default_rng(0).permutation(len(arrays["documents"]))
    order = np.argsort(arrays["documents"][shuffled], kind="stable")
    mixed = {
        key: value[:, shuffled, ::-1] if key in ("experts", "weights") else value[shuffled]
        for key, value in arrays.items()
        if np.ndim(value) and len(value) != 4
    }
    from modtf.routing.analyses import read_choices

    data = read_choices(modtf.read_routing(mixed | {"num_experts": 8}))
    first = arrays["documents"][shuffled]
    ranks = {document: rank for rank, document in enumerate(dict.fromkeys(first.tolist()))}
    assert data.documents.tolist() == sorted(ranks[document] for document in first.tolist())
    assert data.ranked
    rows = np.argsort([ranks[document] for document in first.tolist()], kind="stable")
    np.testing.assert_array_equal(data.experts, arrays["experts"][:, shuffled][:, rows])
    assert len(order) == len(data.documents)


def test_the_help_and_the_page_say_how_many_tokens_are_read():
    page, launch = ((processes.ROOT / name).read_text() for name in ("docs/analyses.md", "launch/measure.py"))
    for name in NAMES:
        most = getattr(import_module(f"modtf.routing.analyses.{name}"), "MOST_TOKENS", None)
        for text in (page, launch) if most else ():
            assert f"{most:,}" in text
            assert name in text
