"""Results as one file: the numbers are the same, and foreign files are not unpacked."""

import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from simulated_results import simulate

from modtf.analysis import find_missing
from modtf.results import find_cells, load_activations, load_history, load_results
from modtf.results.archive import FILES, PARTS, apportion, compact, write_archive
from modtf.results.schema import CORRECTIONS


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two folders with cells of one name, other R."""
    out = tmp_path_factory.mktemp("study")
    for part, rules in (("a", 2), ("b", 8)):
        simulate(out / part, settings=["regression"], rules=[rules], variants=["modular"], num_evaluations=2)
        (cell,) = (out / part).iterdir()
        (cell / "last.keras").write_bytes(b"a model")
        cell.rename(out / part / "one_name")
    return out


@pytest.fixture(scope="module")
def archive(study):
    write_archive(find_cells(study), study / "study.zip")
    return study / "study.zip"


def test_it_is_read_as_the_folder(study, archive):
    for read in (load_results, load_history):
        one, two = (read(source).drop(columns="folder", errors="ignore") for source in (study, archive))
        pd.testing.assert_frame_equal(one, two)
    for one, two in zip(load_activations(study), load_activations(archive), strict=True):
        assert one.cell == two.cell
        np.testing.assert_allclose(one.history, two.history, rtol=0, atol=1 / PARTS)
        np.testing.assert_array_equal(two.history.sum(axis=-1), 1)


def test_the_same_results_are_the_same_bytes_and_no_model(archive, tmp_path):
    write_archive(find_cells(archive), tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    names = zipfile.ZipFile(archive).namelist()
    written = [name for name in FILES if name != CORRECTIONS]
    assert names == [f"{cell}/{name}" for cell in ("one_name", "one_name~2") for name in written]


def test_messages_name_the_archive(study, archive):
    with pytest.raises(ValueError, match=r"study\.zip/one_name and .*hold the same model"):
        find_cells([archive, study])


def test_archives_keep_the_order_in_which_they_are_given(study, tmp_path):
    """They are unpacked to folders of random names, by which results must not be sorted."""
    for rules in (2, 8):
        cells = [cell for cell in find_cells(study) if cell.cell["num_rules"] == rules]
        write_archive(cells, tmp_path / f"{rules}.zip")
    for order in ((2, 8), (8, 2)):
        cells = find_cells([tmp_path / f"{rules}.zip" for rules in order])
        assert [cell.cell["num_rules"] for cell in cells] == list(order)
        assert find_cells(cells) == cells


def test_what_is_unfinished_or_cannot_be_read_is_no_archive(study, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "config.json").write_bytes((study / "a" / "one_name" / "config.json").read_bytes())
    cells = find_cells(tmp_path)
    with pytest.raises(ValueError, match="None of the 1 cell is finished"):
        write_archive(cells, tmp_path / "x.zip")
    with pytest.raises(ValueError, match=r"ends in \.zip"):
        write_archive(find_cells(study), tmp_path / "x.tar")
    shutil.copytree(study / "a" / "one_name", tmp_path / "cell")
    (tmp_path / "cell" / "activation.npz").write_bytes(b"PK")
    with pytest.warns(UserWarning, match=r"the size of activation\.npz changed"):
        cells = find_cells(tmp_path)
    with pytest.raises(ValueError, match="None of the 2 cells is finished"):
        write_archive(cells, tmp_path / "x.zip")
    assert not list(tmp_path.glob("x.*"))


def test_requested_cells_without_results_stay_missing(study, tmp_path):
    """Unfinished and damaged ones, even in an archive of an archive."""
    shutil.copytree(study, tmp_path / "study")
    shutil.copytree(study / "b" / "one_name", tmp_path / "study" / "open")
    for name in ("manifest.json", "results.csv"):
        (tmp_path / "study" / "open" / name).unlink()
    (tmp_path / "study" / "b" / "one_name" / "results.csv").write_text("cut")
    with pytest.warns(UserWarning, match="is damaged and left out"):
        cells = find_cells(tmp_path / "study")
    for name in ("one.zip", "two.zip"):
        write_archive(cells, tmp_path / name)
        cells = find_cells(tmp_path / name)
        missing = find_missing(cells)
        assert missing["status"].tolist() == ["unfinished"] * 2
        assert missing["num_rules"].tolist() == [8, 8]
        assert len(load_results(cells)["folder"].unique()) == 1
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


@pytest.mark.parametrize(
    "name", ["../results.csv", "/results.csv", "./results.csv", "cell/last.keras", "a\\b/results.csv"]
)
def test_what_does_not_belong_there_is_refused(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as file:
        file.writestr(name, "x")
    with pytest.raises(ValueError, match="is not an archive of results"):
        find_cells(tmp_path / "evil.zip")
    assert [path.name for path in tmp_path.iterdir()] == ["evil.zip"]


def test_too_large(archive, monkeypatch, tmp_path):
    (tmp_path / "large.zip").write_bytes(archive.read_bytes())
    monkeypatch.setattr("modtf.results.archive.LARGEST", 100)
    with pytest.raises(ValueError, match="Unpack it yourself"):
        find_cells(tmp_path / "large.zip")


SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 40))


@given(arrays(np.float32, SHAPES, elements=st.floats(0, 1, width=32)))
def test_rows_keep_their_sum_and_shares_their_place(raw):
    shares = (raw + 1e-3) / (raw + 1e-3).sum(axis=-1, keepdims=True)
    rounded = apportion(shares)
    np.testing.assert_array_equal(rounded.sum(axis=-1), 1)
    assert (np.abs(rounded - shares) < 1.01 / PARTS).all()  # float32 shares sum to 1 but for rounding
    assert (rounded >= 0).all()
    np.testing.assert_array_equal(apportion(rounded), rounded)
    np.testing.assert_array_equal(rounded.astype(np.float16), rounded)


def test_what_is_certain_stays_and_so_does_what_diverged():
    np.testing.assert_array_equal(apportion(np.eye(3)), np.eye(3))
    assert np.isnan(apportion([[np.nan, np.nan]])).all()
    last, steps = np.full((2, 3), 1 / 3, np.float32), np.arange(5)
    assert compact({"last": last, "steps": steps}) == compact({"last": last, "steps": steps})
