"""bench --device without a device: the grid, its shards, rows that outlive a kill, and the table."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from absl import flags

from modtf.families import FAMILIES
from modtf.launch.bench import define_flags
from modtf.launch.benchmark.device import measure
from modtf.launch.benchmark.device.grid import Cell, expected_seconds, key_of, label_of, shard_cells, table
from modtf.launch.benchmark.device.measure import measure_cells
from modtf.launch.benchmark.device.paper import paper_hours
from modtf.launch.benchmark.device.process import WorkerDiedError
from modtf.launch.benchmark.device.requests import cells_of_flags, needs_device
from modtf.launch.benchmark.device.rows import Rows
from modtf.launch.benchmark.device.table import GOALS, compared, print_table
from modtf.launch.benchmark.device.trace import newest_trace, operations
from modtf.launch.benchmark.table import goal_lines
from modtf.launch.cli import define_plugin
from modtf.protocol import KERNELS, PRECISIONS


def given(*arguments: str) -> flags.FlagValues:
    values = flags.FlagValues()
    define_flags(values)
    define_plugin(values)
    values(["bench.py", *arguments])
    return values


TINY = ("--device=cpu", "--arch=mlp", "--rules=2", "--width=4", "--precision=float32", "--data=device",
        "--kernels=cpu")  # fmt: skip


def test_the_table_has_what_was_asked_for() -> None:
    cells = table("gpu", {})
    assert len({key_of(cell) for cell in cells}) == len(cells) == 84
    found = {name: {cell[name] for cell in cells} for name in ("arch", "members", "num_rules", "precision")}
    assert found == {
        "arch": set(FAMILIES), "members": {1, 5, 25, 100}, "num_rules": {8, 32}, "precision": set(PRECISIONS)
    }  # fmt: skip
    assert {cell["data"] for cell in cells} == {"device", "host"}
    assert {cell["width"] for cell in cells} == {32, 128, 512}
    assert {cell["kernels"] for cell in cells[:40]} == {"accelerator"}
    assert {cell["kernels"] for cell in cells} == set(KERNELS)
    assert {cell["kernels"] for cell in table("cpu", {})[:40]} == {"cpu"}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_are_the_table_and_take_as_long(count: int) -> None:
    cells = table("gpu", {})
    shards = [shard_cells(cells, f"{i}/{count}") for i in range(count)]
    assert sorted(key_of(cell) for shard in shards for cell in shard) == sorted(map(key_of, cells))
    assert all([c for c in cells if c in shard] == shard for shard in shards), "in the table's order"
    costs = [sum(map(expected_seconds, shard)) for shard in shards]
    assert max(costs) - min(costs) < 2 * max(map(expected_seconds, cells))


def test_lists_replace_those_of_every_part() -> None:
    (cell,) = cells_of_flags(given(*TINY, "--members=2"))
    assert (cell["num_rules"], cell["members"], cell["kernels"]) == (2, 2, "cpu")
    assert json.loads(json.dumps(cell)) == cell
    several = cells_of_flags(given("--device=gpu", "--arch=mha", "--members=1,25", "--search=v2"))
    assert {(c["arch"], c["task"]["search"]) for c in several} == {("mha", "v2")}
    assert {c["members"] for c in several} == {1, 25}


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--precision=half", "--precision='half'"),
        ("--data=auto", "--data='auto'"),
        ("--kernels=gpu", "--kernels='gpu'"),
        ("--members=0", "--members=0"),
        ("--members=1,x", "integers separated by commas"),
        ("--arch=cnn", "--arch='cnn'"),
        ("--shard=2/2", "expected i/n"),
        ("--minutes=0", "above 0"),
        ("--all", "belongs to the table of CPU time"),
        ("--evaluation", "belongs to the table of CPU time"),
        ("--set=training.steps=2", "--set training.steps is not known"),
    ],
)
def test_bad_input_is_refused(argument: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        cells_of_flags(given("--device=cpu", argument))


def test_flags_of_a_device_need_one() -> None:
    needs_device(given("--arch=mlp"))
    with pytest.raises(ValueError, match="--shard needs --device"):
        needs_device(given("--shard=0/2"))


class FakeWorker:
    """Answers as told; what it was asked is kept by the class."""

    asked: ClassVar[list[str]] = []
    breaks: ClassVar[set[int]] = set()  # members whose cell breaks the process
    device = "card"

    def __init__(self, common: Mapping[str, Any]):
        self.closed = False

    def measure(self, cell: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        assert not self.closed
        assert seconds > 0
        self.asked.append(label_of(cell))
        if cell["members"] in self.breaks:
            raise WorkerDiedError("the card fell off the bus")
        return {**cell, "device": self.device, "step_ms": 1.0, "wall_s": 2.0}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    monkeypatch.setattr(FakeWorker, "asked", [])
    monkeypatch.setattr(FakeWorker, "breaks", set())
    return FakeWorker


def left_of(cells: list[Cell], rows: Rows) -> list[int]:
    return [cell["members"] for cell in cells if not rows.has(cell)]


def test_a_killed_part_goes_on_where_it_was(tmp_path: Path, worker: type[FakeWorker]) -> None:
    cells, path = cells_of_flags(given(*TINY, "--members=1,2,3")), tmp_path / "rows.json"
    measure_cells(cells[:2], Rows(path), {}, 1e3, start=worker)
    again = Rows(path)
    assert left_of(cells, again) == [3]
    measure_cells([cell for cell in cells if not again.has(cell)], again, {}, 1e3, start=worker)
    assert worker.asked == [label_of(cell) for cell in cells]
    assert [row["members"] for row in json.loads(path.read_text())] == [1, 2, 3]


def test_a_cell_that_breaks_is_recorded_and_tried_again(tmp_path: Path, worker: type[FakeWorker]) -> None:
    cells, path = cells_of_flags(given(*TINY, "--members=1,2,3")), tmp_path / "rows.json"
    worker.breaks = {2}
    measure_cells(cells, Rows(path), {}, 1e3, start=worker)
    rows = Rows(path)
    assert left_of(cells, rows) == [2]
    assert [row.get("failed") for row in rows] == [None, "the card fell off the bus", None]
    worker.breaks = set()
    measure_cells([cells[1]], rows, {}, 1e3, start=worker)
    assert left_of(cells, Rows(path)) == []
    assert len(Rows(path)) == 3


def test_nothing_begins_that_would_end_too_late(
    worker: type[FakeWorker], capsys: pytest.CaptureFixture[str]
) -> None:
    cells, rows = cells_of_flags(given(*TINY, "--members=1,2,3")), Rows(None)
    measure_cells(cells, rows, {}, 5.0, start=worker)
    assert (worker.asked, len(rows)) == ([], 0)
    assert "3 cells are left" in capsys.readouterr().out
    rows.add({**cells[0], "device": "card", "wall_s": 1.0})
    measure_cells(cells[1:], rows, {}, 5.0, start=worker)  # now it is known that they are quick
    assert len(worker.asked) == 2


def test_rows_of_two_devices_do_not_mix(tmp_path: Path, worker: type[FakeWorker]) -> None:
    cells, rows = cells_of_flags(given(*TINY, "--members=1,2")), Rows(tmp_path / "rows.json")
    rows.add({**cells[0], "device": "another card"})
    with pytest.raises(ValueError, match="holds rows of another card, and this is card"):
        measure_cells(cells[1:], rows, {}, 1e3, start=worker)
    assert worker.asked == []


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"step_ms": 1}]'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="holds no rows of a benchmark"):
        Rows(tmp_path / "x.json")


def test_a_dry_run_measures_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "measure_cells", None)
    measure.measure_device(given("--device=gpu", "--backend=jax", "--shard=0/2", "--dry_run"))
    first, *lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 42
    assert first.startswith("42 cells, 0 of them measured before; the rest may take some 11.0 minutes.")
    assert "mlp_r8_e32_modular_p25_float32_device_accelerator_jax" in lines[0]


def row(members: int, rate: float, **other: Any) -> dict[str, Any]:
    (cell,) = cells_of_flags(given(*TINY, "--width=32", f"--members={members}"))
    measured = {
        "device": "card", "software": "jax", "step_ms": 1e3 * members / rate, "member_steps_per_s": rate,
        "models_per_hour": 3600 * rate / 100_000, "peak_fraction": 0.4, "peak_tflops": 50.0,
        "program_bytes": None, "compile_s": 3.0, "flops": 100,
    }  # fmt: skip
    return {**cell, **measured, **other}


def test_rows_are_compared_with_25_members_and_the_released_code(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row(25, 1e5), row(100, 2e5), row(25, 1e5, width=128), {**row(1, 1.0), "failed": "no memory"}]
    shape = {name: rows[0][name] for name in ("arch", "num_rules", "width", "variant")}
    released = [{**shape, "processes": n, "models_per_hour": speed} for n, speed in ((1, 18.0), (4, 30.0))]
    of_25, of_100, wide = compared(rows[:3], released)
    assert of_100["to_25_members"] == 0.5
    assert of_25["released_models_per_hour"] == 30.0
    assert of_25["to_released"] == pytest.approx(30 / 3600)
    assert "to_released" not in wide
    met = goal_lines([of_25, of_100, wide], GOALS)
    assert [line.split(": ")[1].split(";")[0] for line in met] == ["met"] * 3
    print_table(rows, released)
    text = capsys.readouterr().out
    assert "120x" in text
    assert "failed: mlp 2 32 modular 1: no memory" in text


def test_the_papers_hours_need_its_smallest_and_largest_width() -> None:
    rows = [
        row(25, 25e3 / ms, arch=arch, num_rules=8, width=width, step_ms=ms, precision="tf32")
        for arch in FAMILIES
        for width, ms in ((32, 1.0), (128, 4.0), (512, 16.0))
    ]
    (hours,) = paper_hours(rows).values()  # a step of e takes e / 32 ms
    cells = 100_000 * 40 + 500_000 * 120  # steps of all cells of one width
    assert hours == pytest.approx(cells * 1e-3 * (1 + 2 + 4 + 8 + 16) / 3600)
    slower = [{**each, "kernels": "accelerator", "step_ms": 99.0} for each in rows]
    assert paper_hours([*rows, *slower]) == {"tf32": hours}
    assert paper_hours([each for each in rows if each["width"] < 512]) == {}
    assert paper_hours([each for each in rows if each["arch"] != "mha"]) == {}


def test_what_a_trace_says(tmp_path: Path) -> None:
    """An accelerator's streams, not what the host did; what holds other operations does not count twice."""

    def named(kind: str, name: str, **where: int) -> dict[str, Any]:
        return {"ph": "M", "name": f"{kind}_name", "args": {"name": name}, **where}

    def did(name: str, took: float, tid: int, pid: int = 2) -> dict[str, Any]:
        return {"ph": "X", "name": name, "dur": took, "pid": pid, "tid": tid}

    events = [
        named("process", "/host:CPU", pid=1), named("process", "/device:GPU:0", pid=2),
        named("thread", "python", pid=1, tid=1), named("thread", "Stream #14(Compute)", pid=2, tid=7),
        named("thread", "XLA Ops", pid=2, tid=8), did("fusion", 30.0, 7), did("dot", 50.0, 7),
        did("fusion", 10.0, 7), did("while.1", 90.0, 7), did("dot", 55.0, 8), did("sleep", 1e6, 1, pid=1),
    ]  # fmt: skip
    place = tmp_path / "plugins" / "profile" / "now"
    assert newest_trace(tmp_path) is None
    place.mkdir(parents=True)
    with gzip.open(place / "host.trace.json.gz", "wt") as file:
        json.dump({"traceEvents": events}, file)
    path = newest_trace(tmp_path)
    assert path is not None
    assert operations(path, 10) == {
        "operations_per_step": 0.3, "busy_ms": pytest.approx(0.009),
        "slowest": [["dot", pytest.approx(0.005)], ["fusion", pytest.approx(0.004)]],
    }  # fmt: skip
