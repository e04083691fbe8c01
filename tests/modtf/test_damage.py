"""Damaged files of every kind are refused by name in one line, or left out by name, or read as they were."""

import json
import os
import random
import re
import signal
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import format_writers as writers
import numpy as np
import pytest
from cheap import search_of
from damages import WAYS, damage
from fuzzing import EXAMPLES, survives
from simulated_results import simulate

import modtf
from modtf.engines.state import state_of, write_config, write_error
from modtf.experiments.modarch.scorecard.card import read_card, reference
from modtf.experiments.modarch.studies.scorecard import FULL
from modtf.results import find_cells, load_activations, load_history, load_results
from modtf.results.archive import write_archive
from modtf.results.cells import read_config
from modtf.results.schema import ERROR, MANIFEST, write_manifest
from modtf.tuning.search import DEFINITION, TRIALS, find_searches
from modtf.tuning.trials import trials_of

SMALL: dict[str, Any] = {"settings": ["regression"], "rules": [2], "data_seeds": [0], "num_evaluations": 1}
SEARCH = search_of("0.1,0.01")


class Kind(NamedTuple):
    """A kind of file: how it is written into a folder, and what is read of it.

    A changed number is noticed if the file `is_checked` by a checksum. An error names the file, or says one
    of `words`.
    """

    write: Callable[[Path], Path]
    read: Callable[[Path], Any]
    is_checked: bool = False
    words: tuple[str, ...] = ()


def write_cell(folder: Path) -> Path:
    (cell,) = simulate(folder, variants=["modular"], **SMALL).iterdir()
    write_config(modtf.Cell.from_dict(read_config(cell)), cell)
    write_manifest(cell)
    return cell


def read_cell(path: Path) -> list[Any]:
    """Return all numbers of the cell that has this file, or nothing if it is left out."""
    frames = [load(path.parent) for load in (load_results, load_history)]
    result = [array.tolist() for one in load_activations(path.parent) for array in (one.last, one.history)]
    return [] if frames[0].empty else [frame.to_csv(index=False) for frame in frames] + result


def read_recorded(path: Path) -> list[Any]:
    """Return all numbers of a cell whose manifest is written anew, so that its files alone tell of damage."""
    write_manifest(path.parent)
    return read_cell(path)


def cell_file(name: str) -> Callable[[Path], Path]:
    return lambda folder: write_cell(folder) / name


def write_archived(folder: Path) -> Path:
    write_archive(find_cells(write_cell(folder)), folder / "study.zip")
    return folder / "study.zip"


def write_search(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        SEARCH.write(folder, [{"learning_rate": 0.1}, {"learning_rate": 0.01}])
        return SEARCH.folder(folder) / name

    return write


def write_failed(folder: Path) -> Path:
    cell = folder / SEARCH.base.folder
    cell.mkdir()
    write_config(SEARCH.base, cell)
    write_error(cell, {"message": "it failed"})
    return cell / ERROR


def write_text(name: str, text: str) -> Callable[[Path], Path]:
    return lambda folder: (folder / name, (folder / name).write_text(text))[0]


def write_model(folder: Path) -> Path:
    modtf.build(modtf.Task(num_rules=3), "modular", 3).save(folder / "ünï çødé model.keras")
    return folder / "ünï çødé model.keras"


def write_routing(name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        getattr(writers, name)(folder)
        return max(
            (path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
        )

    return write


def read_routing(path: Path) -> list[Any]:
    is_alone = path.suffix not in (".csv", ".gguf") and len(list(path.parent.iterdir())) == 1
    source = path if is_alone else path.parent
    names = {"top_k": writers.K} if path.name.startswith("sglang") else {}
    routing = modtf.read_routing(source, num_experts=writers.EXPERTS, **names)
    return [layer.hard.activation.tolist() for layer in routing.measure(permutations=0)]


CELL = {name: Kind(cell_file(name), read_cell, True)
        for name in ("config.json", "results.csv", "history.csv", "activation.npz", MANIFEST)}  # fmt: skip
RECORDED = {f"recorded {name}": Kind(cell_file(name), read_recorded)
            for name in ("config.json", "results.csv", "activation.npz")}  # fmt: skip
ARRAYS = ("experts ", "tokens ", "weights ", "documents ")  # errors that name the array of a file
ROUTING = {name: Kind(write_routing(name), read_routing, words=ARRAYS) for name in (
    "vllm", "vllm_split", "sglang", "sglang_recorder", "sglang_stat", "transformer_lens", "flame",
    "csv_of_documents", "csv_counts", "jsonl_layers", "jsonl_counts", "imatrix", "megatron_core",
    "safetensors", "parquet_lists",
)}  # fmt: skip
KINDS: dict[str, Kind] = {
    **CELL, **RECORDED, **ROUTING,
    "archive": Kind(write_archived, lambda path: load_results(path).drop(columns="folder").to_csv(), True,
                    ("modtf-results-",)),
    "model": Kind(write_model, lambda path: [w.tolist() for w in modtf.load_model(path).get_weights()], True),
    "arrays": Kind(writers.npz, read_routing, words=ARRAYS),
    DEFINITION: Kind(write_search(DEFINITION), lambda path: find_searches(path.parents[2])),
    TRIALS: Kind(write_search(TRIALS), lambda path: trials_of(SEARCH, path.parents[2])),
    "error": Kind(write_failed, lambda path: state_of(SEARCH.base, path.parents[1]).name),
    "card": Kind(write_text("card.json", json.dumps(reference(FULL))), lambda path: read_card(path, FULL)),
}  # fmt: skip


@pytest.fixture
def file(request, tmp_path):
    """The kind, the path of a whole file, and what is read of it."""
    path = KINDS[request.param].write(tmp_path)
    return KINDS[request.param], path, KINDS[request.param].read(path)


def attempt(kind: Kind, path: Path, whole: Any, what: str, is_checked: bool) -> None:
    """Read a damaged file; it must be refused or left out by name, or read as it was."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        result = survives(lambda: kind.read(path), str(path.parent), path.name, *kind.words)
    if result is not None and not any(str(path.parent) in str(note.message) for note in noted):
        assert not is_checked or result == whole, f"{what} is read in silence"


@pytest.mark.parametrize("file", KINDS, indirect=True)
def test_bytes(file):
    kind, path, whole = file
    content, chance = path.read_bytes(), random.Random(path.name)
    for way in (*WAYS[:3], *chance.choices(WAYS[:2], k=EXAMPLES)):
        damage(chance, path, [], way)
        attempt(kind, path, whole, way, kind.is_checked)
        path.write_bytes(content)


@pytest.mark.parametrize("file", KINDS, indirect=True)
def test_pipes_and_devices_are_not_read(file):
    """Reading a pipe never ends; reading a device fills the memory."""
    kind, path, whole = file
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"{path.name} was read"))
    for way in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        path.unlink()
        way(path)
        signal.alarm(5)
        try:
            attempt(kind, path, whole, "a pipe or a device", kind.is_checked)
        finally:
            signal.alarm(0)


def json_damages(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a JSON value with each of its parts removed or of another type; only first entries of lists."""
    values: list[Any] = [None, "x", -1.5, [], {}]
    for other in values:
        if type(other) is not type(value):
            yield f"{place}={other!r}", other
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(min(len(value), 1)):
            copy = value.copy()
            del copy[key]
            yield f"no {place}.{key}", copy
            for what, part in json_damages(value[key], f"{place}.{key}"):
                copy = value.copy()
                copy[key] = part
                yield what, copy


@pytest.mark.parametrize("file", ["config.json", "recorded config.json", MANIFEST, DEFINITION, TRIALS,
                                  "error", "card"], indirect=True)  # fmt: skip
def test_json(file):
    kind, path, whole = file
    for what, changed in json_damages(json.loads(path.read_text())):
        path.write_text(json.dumps(changed))
        attempt(kind, path, whole, what, kind.is_checked)


@pytest.mark.parametrize(
    "file", ["jsonl_layers", "jsonl_counts", "vllm", "sglang", "megatron_core"], indirect=True
)
def test_json_lines(file):
    kind, path, whole = file
    first, *others = path.read_text().splitlines()
    for what, changed in json_damages(json.loads(first)):
        path.write_text("\n".join([json.dumps(changed), *others]))
        attempt(kind, path, whole, what, False)


class Code:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> Any:
        return (self.path.touch, ())


@pytest.mark.parametrize("file", ["recorded activation.npz", "arrays"], indirect=True)
def test_arrays(file, tmp_path):
    """Each array in turn is removed, or has another type or shape, or holds code, which never runs."""
    kind, path, whole = file
    with np.load(path) as stored:
        arrays = dict(stored)
    for name, array in arrays.items():
        others = {
            "text": array.astype(str),
            "of one axis": array.ravel()[:3],
            "of one axis more": array[..., None],
        }
        others["code"] = np.array([Code(tmp_path / "ran")], object)
        for what, other in others.items():
            np.savez(path, **{**arrays, name: other})
            attempt(kind, path, whole, f"{name}: {what}", kind.read is read_recorded)
        np.savez(path, **{one: values for one, values in arrays.items() if one != name})
        attempt(kind, path, whole, f"no {name}", kind.read is read_recorded)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("file", ["archive", "model", "arrays"], indirect=True)
def test_files_that_unpack_to_far_more_than_they_are(file, monkeypatch):
    kind, path, _ = file
    if path.suffix == ".npz":
        np.savez_compressed(path, experts=np.zeros(1 << 23), num_experts=8)
    else:
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("cell/results.csv", bytes(1 << 26))
    monkeypatch.setattr("modtf.base.files.LARGE", 1 << 25)
    with pytest.raises(ValueError, match=rf"{re.escape(path.name)} would unpack from .* bytes"):
        kind.read(path)
