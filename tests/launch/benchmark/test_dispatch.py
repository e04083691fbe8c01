"""Rows that outlive a kill, cells that break their process, and a time that is kept; nothing is measured."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from modtf.launch.benchmark import dispatch
from modtf.launch.benchmark.dispatch import NO_END, Rows, answers, measure_requests
from modtf.launch.benchmark.requests import Request, cells_of

COMMON = {"clock": "wall", "device": "cpu", "backend": "jax"}
REQUESTS = [
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

    def __call__(
        self, requests: Sequence[Request], common: Mapping[str, Any], seconds: float
    ) -> Iterator[dict[str, Any]]:
        assert seconds > 0
        yield {"device": "card"}
        for request in requests:
            self.asked.append(request["members"])
            if request["members"] in self.breaks:
                yield {"died": "the card fell off the bus"}
                return
            measured = {"device": "card", "step_ms": 1.0, "wall_s": 2.0}
            yield {"rows": [{**cell, **measured} for cell in cells_of(request)]}


def left_of(rows: Rows) -> list[int]:
    return [request["members"] for request in REQUESTS if not rows.has(request)]


def test_a_killed_part_goes_on_where_it_was(tmp_path: Path) -> None:
    card, path = Card(), tmp_path / "rows.json"
    measure_requests(REQUESTS[:2], Rows(path), COMMON, 1e3, ask=card)
    again = Rows(path)
    assert left_of(again) == [3]
    measure_requests([each for each in REQUESTS if not again.has(each)], again, COMMON, 1e3, ask=card)
    assert card.asked == [1, 2, 3]
    assert [row["members"] for row in json.loads(path.read_text())] == [1, 2, 3]
    assert left_of(Rows(path, anew=True)) == [1, 2, 3]


def test_a_cell_that_breaks_is_recorded_and_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    measure_requests(REQUESTS, Rows(path), COMMON, 1e3, ask=Card(2))
    rows = Rows(path)
    assert left_of(rows) == [2]
    assert [row.get("failed") for row in rows] == [None, "the card fell off the bus", None]
    measure_requests(REQUESTS[1:2], rows, COMMON, 1e3, ask=Card())
    assert left_of(Rows(path)) == []


def test_cpu_time_has_a_process_for_each_and_stops_at_a_failure() -> None:
    card, rows = Card(3), Rows(None)
    with pytest.raises(OSError, match=r"measuring mlp_r2_e4_modular_p3.* failed: the card fell off"):
        measure_requests(REQUESTS, rows, {**COMMON, "clock": "cpu"}, NO_END, ask=card)
    assert left_of(rows) == [3]


def test_nothing_begins_that_would_end_too_late(capsys: pytest.CaptureFixture[str]) -> None:
    card, rows = Card(), Rows(None)
    measure_requests(REQUESTS, rows, COMMON, 5.0, ask=card)
    assert card.asked == []
    assert "3 cells are left" in capsys.readouterr().out
    rows.add([{**cells_of(REQUESTS[0])[0], "device": "card", "wall_s": 1.0}])
    measure_requests(REQUESTS[1:], rows, COMMON, 5.0, ask=card)  # now it is known that they are quick
    assert card.asked == [2, 3]


def test_rows_of_two_devices_do_not_mix() -> None:
    card, rows = Card(), Rows(None)
    rows.add([{**cells_of(REQUESTS[0])[0], "device": "another card"}])
    with pytest.raises(ValueError, match="holds rows of another card, and this is card"):
        measure_requests(REQUESTS[1:], rows, COMMON, 1e3, ask=card)
    assert card.asked == []


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"step_ms": 1}]'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="holds no rows of a benchmark"):
        Rows(tmp_path / "x.json")


def test_a_process_that_dies_or_hangs_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def instead(program: str) -> None:
        begin = subprocess.Popen
        monkeypatch.setattr(
            dispatch.subprocess, "Popen", lambda _, **how: begin([sys.executable, "-c", program], **how)
        )

    instead("import sys; sys.exit('no such library')")
    with pytest.raises(OSError, match="cannot begin: no such library"):
        measure_requests(REQUESTS, Rows(None), COMMON, 1e3)
    monkeypatch.undo()
    instead('import time; print(\'{"device": "card"}\', flush=True); time.sleep(60)')
    assert list(answers(REQUESTS, COMMON, 1.0)) == [{"device": "card"}, {"died": "nothing was printed"}]
