"""Forks a process that tunes for every line of input, so that KerasTuner is imported once.

A line is JSON: "folder", "axis" and "limit" of the search, "log" to write to, and "environment". Answers with
the process's number; its log ends with "ended".
"""

import json
import os
import sys
import traceback
from typing import Any

from cheap import search_of
from keras_tuner.src.distribute import oracle_chief, oracle_client  # noqa: F401

from modtf.engines.perform import Work
from modtf.tuning import ORACLES
from modtf.tuning.role import role_here
from modtf.tuning.run import run_search


def tune(request: dict[str, Any]) -> None:
    os.environ.update(request["environment"])
    work = Work(request["folder"], "cheap:train")
    for axis in request["axis"].split(";"):
        run_search(search_of(axis), work, role_here(), request["limit"], shown=False)


def main() -> None:
    os.environ["MODTF_XLA_CACHE"] = "0"
    assert "grid" in ORACLES
    for line in sys.stdin:
        request = json.loads(line)
        process = os.fork()
        if not process:
            handle = os.open(request["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            status = 1
            try:
                tune(request)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                print(f"ended {status}", flush=True)
                os._exit(status)
        print(process, flush=True)


if __name__ == "__main__":
    main()
