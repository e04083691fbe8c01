"""A damaged checkpoint is noticed, said, and not used."""

from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from modtf.training import checkpoint_file


@pytest.fixture
def path(tmp_path):
    """A checkpoint that holds 2, written over earlier ones."""
    path = tmp_path / "checkpoint.npz"
    for number in range(3):
        checkpoint_file.save(path, {"number": np.array(number), "weights": np.zeros(1000, np.float32)})
    return path


def flip(place):
    def one_bit(path):
        content = bytearray(path.read_bytes())
        content[int(place * (len(content) - 1))] ^= 4
        path.write_bytes(content)

    return one_bit


def hold_code(path):
    np.savez(path, number=np.array([print], object))


DAMAGES = {
    "nonsense": lambda path: path.write_bytes(b"PK\x03\x04 and no more"),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "removed": lambda path: path.unlink(),
    "code": hold_code,
    **{f"a bit at {place:.1f}": flip(place) for place in np.linspace(0, 0.8, 9)},
}


@pytest.fixture
def load(capsys):
    def load(path):
        found = checkpoint_file.load(path)
        return None if found is None else int(found["number"]), capsys.readouterr().out.splitlines()

    return load


def test_the_newest_is_read(path, load):
    assert load(path.with_name("other.npz")) == (None, [])
    assert load(path) == (2, [])
    assert [file.name for file in path.parent.iterdir()] == ["checkpoint.npz"]


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_said_and_training_starts_again(path, load, name):
    DAMAGES[name](path)
    number, said = load(path)
    assert number is None
    if name != "removed":
        (line,) = said
        assert line.startswith(f"The checkpoint {path} is ")
        assert line.endswith(". Training starts from the beginning.")
    assert list(path.parent.iterdir()) == []


def test_no_flipped_bit_is_read_as_a_number(path):
    whole = path.read_bytes()
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            found = checkpoint_file._read(path)
        except checkpoint_file.DamagedError:
            continue
        np.testing.assert_equal(found, {"number": np.array(2), "weights": np.zeros(1000, np.float32)})


@pytest.mark.parametrize(
    ("of", "name", "error"),
    [(Path, "read_bytes", OSError(5, "Input/output error")), (np, "load", MemoryError())],
)
def test_what_cannot_be_read_just_now_is_not_removed(path, load, monkeypatch, of, name, error):
    monkeypatch.setattr(of, name, Mock(side_effect=error))
    with pytest.raises(type(error)):
        load(path)
    monkeypatch.undo()
    assert load(path) == (2, [])


def test_what_cannot_be_written_does_not_cost_the_file(path, load, monkeypatch):
    with pytest.raises(ValueError, match="callback_0_function is an array of objects"):
        checkpoint_file.save(path, {"callback_0_function": np.array([print], object)})
    monkeypatch.setattr(np, "savez", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        checkpoint_file.save(path, {"number": np.array(3)})
    assert load(path) == (2, [])


def test_a_checkpoint_larger_than_other_files_may_be_is_read(path, load, monkeypatch):
    monkeypatch.setattr("modtf.base.files.regular_file.__defaults__", (1000,))
    assert load(path) == (2, [])
