"""A file is whole or absent."""

import errno
import gzip
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest

from modtf.base.files import (
    LARGE,
    atomic_path,
    check_file_writable,
    check_ratio,
    check_writable,
    regular_file,
    remove_unfinished,
    scratch_folder,
    walk,
    write_table,
    write_text,
)


def test_writes_and_makes_folders(tmp_path):
    path = tmp_path / "a" / "b" / "model.keras"
    with atomic_path(path) as temporary:
        assert temporary.name == path.name  # Keras looks at its ending
        assert temporary.parent.parent == path.parent  # on the same disk
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
    with pytest.raises(ValueError, match=f"--json={tmp_path} is a folder; expected a file's name"):
        check_file_writable(tmp_path, "--json")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"--json=.*x.json cannot be written: .*file is not a folder"):
        check_file_writable(tmp_path / "file" / "x.json", "--json")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_full_disk_is_no_fault_of_the_name(tmp_path, monkeypatch, number):
    monkeypatch.setattr(tempfile, "mkdtemp", Mock(side_effect=OSError(number, "refused")))
    with pytest.raises(OSError if number == errno.ENOSPC else ValueError, match="refused"):
        check_writable(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux alone has it")
def test_a_full_disk_is_named_with_the_path(tmp_path):
    def write():
        with atomic_path(tmp_path / "table.csv") as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_text("whole")

    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path / 'table.csv'}'"):
        write()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_errors_of_the_operating_system_name_the_file(tmp_path, monkeypatch, number):
    """Also those that name no file, or a temporary one; a folder among temporary files is called that."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = "in the folder of temporary files, which TMPDIR chooses"
    for named in (lambda folder: [], lambda folder: [str(folder / "x")]):
        with (
            pytest.raises(OSError, match=rf": '{tmp_path / 'x.csv'}'$"),
            atomic_path(tmp_path / "x.csv") as path,
        ):
            raise OSError(number, "refused", *named(path.parent))
        with pytest.raises(OSError, match=rf"refused {words}: '{tmp_path}'$"), scratch_folder() as folder:
            raise OSError(number, "refused", *named(folder))
    with pytest.raises(OSError, match=r"other'$"), scratch_folder():
        raise OSError(number, "refused", "other")
    monkeypatch.setattr(
        tempfile, "mkdtemp", Mock(side_effect=OSError(number, "refused", f"{tmp_path}/.writing-"))
    )
    with pytest.raises(OSError, match=rf"refused {words}: '{tmp_path}'$"), scratch_folder():
        pass


def test_only_regular_files_of_a_limited_size_are_read(tmp_path):
    (tmp_path / "x").write_bytes(b"1234")
    (tmp_path / "link").symlink_to(tmp_path / "x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    assert regular_file(tmp_path / "link", 4) == tmp_path / "link"
    with pytest.raises(ValueError, match=f"{tmp_path / 'x'} has 4 bytes; expected at most 3"):
        regular_file(tmp_path / "x", 3)
    for name in ("pipe", "device", "."):
        with pytest.raises(ValueError, match="is a pipe, a device or a folder; expected a regular file"):
            regular_file(tmp_path / name)


def test_a_walk_leaves_out_unfinished_folders_and_those_that_vanish(tmp_path):
    for name in ("a/b", ".writing-host-x/c", "a/.writing-host-y", "gone/d"):
        (tmp_path / name).mkdir(parents=True)
    seen = []
    for folder, folders, _ in walk(tmp_path):
        if folder == tmp_path:
            assert folders == ["a", "gone"]
            shutil.rmtree(tmp_path / "gone")
        seen.append(folder)
    assert seen == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]


HOLDS = """
import sys, time
from modtf.base.files import atomic_path, scratch_folder
with atomic_path(sys.argv[1] + "/table.csv") as file, scratch_folder(sys.argv[1]) as folder:
    file.write_text("half")
    (folder / "half").write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_what_a_killed_process_left_goes_and_what_a_living_one_writes_stays(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
    command = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        (tmp_path / ".writing-another-machine-x").mkdir()  # an unknown machine
        write_text(tmp_path / "a", "")
        assert len(list(tmp_path.glob(".writing-*"))) == 3
        process.send_signal(signal.SIGKILL)
    with scratch_folder(tmp_path) as folder:
        assert sorted(tmp_path.glob(".writing-*")) == sorted(
            [folder, tmp_path / ".writing-another-machine-x"]
        )
        remove_unfinished(tmp_path)  # called with the folder's lock held
        assert not list(tmp_path.glob(".writing-*"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_tables_hold_no_formulas(tmp_path):
    texts = ["=1+1", "+x", "-x", "@x", "\t=1", "-1.5", "a=b", "", 'say "=x"', "é"]
    frame = pd.DataFrame(
        {"=name": texts, "number": [-1.5] * 10, "kind": pd.Categorical(texts), "any": [-1] * 10}
    )
    write_table(tmp_path / "x.csv", frame)
    found = pd.read_csv(tmp_path / "x.csv", keep_default_na=False, dtype={"'=name": str, "kind": str})
    safe = ["'=1+1", "'+x", "'-x", "'@x", "'\t=1", *texts[5:]]
    assert (found["'=name"].tolist(), found["kind"].tolist()) == (safe, safe)
    assert (found["number"].tolist(), found["any"].tolist()) == ([-1.5] * 10, [-1] * 10)


@pytest.mark.parametrize(("packed", "size"), [(1, LARGE), (1 << 24, 2 << 30)])
def test_files_that_unpack_to_little_or_not_far_more_are_read(packed, size):
    entry = zipfile.ZipInfo("x")
    entry.compress_size, entry.file_size = packed, size
    check_ratio("x.zip", [entry])


def test_a_table_is_compressed_where_its_name_says_so(tmp_path):
    frame = pd.DataFrame({"name": ["a", "b"], "value": [0.1, 1e-9]})
    for name in ("plain.csv", "first.csv.gz", "second.csv.gz"):
        write_table(tmp_path / name, frame)
        pd.testing.assert_frame_equal(pd.read_csv(tmp_path / name), frame)
    first, second = ((tmp_path / name).read_bytes() for name in ("first.csv.gz", "second.csv.gz"))
    assert first == second
    assert gzip.decompress(first) == (tmp_path / "plain.csv").read_bytes()
