"""A file is whole or absent."""

import errno
import tempfile
from unittest.mock import Mock

import pytest

from modtf.files import atomic_path, check_file_writable, check_writable, write_text


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


def test_check_writable(tmp_path):
    for good in (tmp_path, tmp_path / "new" / "ünï çødé folder"):
        assert check_writable(good) == good
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "nothing")
    for wrong in ("file", "file/below", "loop", "loop/below"):
        with pytest.raises(ValueError, match=f"--out={tmp_path / wrong} cannot be written: .* is not a fold"):
            check_writable(tmp_path / wrong, "--out")
    for nonsense in ("\0", "x" * 300, 3, None):
        with pytest.raises(ValueError, match=r"out=.* is not valid; expected a path"):
            check_writable(nonsense)  # type: ignore[arg-type]
    assert {path.name for path in tmp_path.iterdir()} == {"file", "loop"}


def test_check_file_writable(tmp_path):
    assert check_file_writable(tmp_path / "new" / "x.json", "--json") == tmp_path / "new" / "x.json"
    with pytest.raises(ValueError, match=f"--json={tmp_path} is a folder; give the name of a file"):
        check_file_writable(tmp_path, "--json")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"--json=.*x.json cannot be written: .*file is not a folder"):
        check_file_writable(tmp_path / "file" / "x.json", "--json")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_full_disk_is_no_fault_of_the_name(tmp_path, monkeypatch, number):
    monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=OSError(number, "refused")))
    with pytest.raises(OSError if number == errno.ENOSPC else ValueError, match="refused"):
        check_writable(tmp_path)
