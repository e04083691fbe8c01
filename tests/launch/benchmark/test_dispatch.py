"""Rows survive a kill, cells may break their process, and a time limit holds; nothing is measured."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from modtf.launch.benchmark import dispatch
from modtf.launch.benchmark.dispatch import NO_END, Rows, answer, measure_requests
from modtf.launch.benchmark.requests import Request, cells_of

COMMON = {"clock": "wall", "device": "cpu", "backend": "jax"}
REQUESTS: list[dict[str, Any]] = [
    {"arch": "mlp", "num_rules": 2, "width": 4, "members": members, "precision": "float32", "data": "device",
     "kernels": "cpu", "variants": ["modular"], "backend": "jax", "router": {"modular": {}}}
    for members in (1, 2, 3)
]  # fmt: skip


class Card:
    """Answers as told, and remembers what it was asked.

    Args:
        breaks: members whose cell breaks the process.
    """

    def __init__(self, *breaks: int):
        self.breaks, self.asked = breaks, list[int]()

    def __call__(self, request: Request, common: Mapping[str, Any], seconds: float) -> list[dict[str, Any]]:
        assert seconds > 0
        self.asked.append(request["members"])
        broken = request["members"] in self.breaks
        found = {"failed": "fell off the bus"} if broken else {"device": "card", "step_ms": 1.0}
        return [{**cell, **found} for cell in cells_of(request)]


def left_of(rows: Rows) -> list[int]:
    return [request["members"] for request in REQUESTS if not rows.has(request)]


def test_a_killed_part_goes_on_where_it_was(tmp_path: Path) -> None:
    card, path = Card(), tmp_path / "rows.json"
    measure_requests(REQUESTS[:2], Rows(path), COMMON, 1e3, card)
    again = Rows(path)
    assert left_of(again) == [3]
    measure_requests([each for each in REQUESTS if not again.has(each)], again, COMMON, 1e3, card)
    assert card.asked == [1, 2, 3]
    assert [row["members"] for row in json.loads(path.read_text())] == [1, 2, 3]
    assert left_of(Rows(path, anew=True)) == [1, 2, 3]


def test_a_cell_that_breaks_is_recorded_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    measure_requests(REQUESTS, Rows(path), COMMON, 1e3, Card(2))
    rows = Rows(path)
    assert left_of(rows) == [2]
    assert [row.get("failed") for row in rows] == [None, "fell off the bus", None]
    measure_requests(REQUESTS[1:2], rows, COMMON, 1e3, Card())
    assert left_of(Rows(path)) == []
    with pytest.raises(OSError, match=r"measuring mlp_r2_e4_modular_p3.* failed: fell off"):
        measure_requests(REQUESTS, Rows(None), {**COMMON, "clock": "cpu"}, NO_END, Card(3))


def test_nothing_begins_that_would_end_too_late(capsys: pytest.CaptureFixture[str]) -> None:
    card, rows = Card(), Rows(None)
    measure_requests(REQUESTS, rows, COMMON, 5.0, card)
    assert card.asked == []
    assert "3 cells left" in capsys.readouterr().out
    rows.add([{**cells_of(REQUESTS[0])[0], "device": "card", "wall_s": 1.0}])
    measure_requests(REQUESTS[1:], rows, COMMON, 5.0, card)  # now it is known that they are quick
    assert card.asked == [2, 3]


def test_rows_of_two_devices_do_not_mix() -> None:
    rows = Rows(None)
    rows.add([{**cells_of(REQUESTS[0])[0], "device": "another card"}])
    with pytest.raises(ValueError, match="holds rows of another card, but this is card"):
        measure_requests(REQUESTS[1:], rows, COMMON, 1e3, Card())


def test_a_process_that_dies_or_hangs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(program: str) -> None:
        monkeypatch.setattr(dispatch, "COMMAND", [sys.executable, "-c", program])

    instead("import sys; sys.stdin.read(); sys.exit('no such library')")
    with pytest.raises(OSError, match="could not start: no such library"):
        measure_requests(REQUESTS, Rows(None), COMMON, 1e3)
    instead("import os, sys; sys.stdin.read(); os.abort()")
    assert [row["failed"] for row in answer(REQUESTS[0], COMMON, 1e3)] == ["nothing was printed"]
    instead("import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        answer(REQUESTS[0], COMMON, 0.5)
