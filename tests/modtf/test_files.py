"""A file is whole or absent."""

import pytest

from modtf.files import atomic_path, cache_folder, write_text


def test_writes_and_makes_folders(tmp_path):
    path = tmp_path / "a" / "b" / "model.keras"
    with atomic_path(path) as temporary:
        assert temporary.name.endswith(".keras")  # Keras looks at it
        assert temporary.parent == path.parent
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"
    assert [p.name for p in path.parent.iterdir()] == ["model.keras"]


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.csv"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")  # cannot be encoded
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["results.csv"]


def test_others_may_read_it(tmp_path):
    write_text(tmp_path / "table.csv", "ü")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "table.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "table.csv").read_text(encoding="utf-8") == "ü"


def test_where_things_are_kept_that_can_be_made_again(monkeypatch, tmp_path):
    monkeypatch.delenv("MODTF_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("xla", "v1") == tmp_path / "modtf" / "xla" / "v1"
    monkeypatch.setenv("MODTF_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    assert not cache_folder().exists()
