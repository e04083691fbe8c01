"""By hand: kills searches at random moments, goes on each time, and compares with undisturbed ones.

    python tests/modtf/tuning/kill_loop.py --kills=50
    python tests/modtf/tuning/kill_loop.py --kills=50 --together     # a chief and two workers

Every kill is a SIGKILL. At the end it prints what was killed and what was lost; exit status 1 unless that is
nothing. Trials cost nothing but a tenth of a second.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cheap import search_of

from modtf.tuning.trials import trials_of

HERE = Path(__file__).parent
RATES = ",".join(f"{0.001 * n:g}" for n in range(1, 13))
ALONE = "alone"


def found(folder: Path) -> list[tuple[object, ...]]:
    """What a search has found, and how often each of its cells was begun."""
    search = search_of(RATES)
    return [(t.number, t.values["learning_rate"], t.status, t.objective) for t in
            trials_of(search, search.folder(folder))]  # fmt: skip


class Party:
    """The processes that share a search; each is started again when it has been killed."""

    def __init__(self, forker: "subprocess.Popen[str]", folder: Path, names: list[str]):
        self.forker, self.folder = forker, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        self.together = len(names) > 1
        folder.mkdir()
        self.running = {name: self.start(name) for name in names}
        self.starts = 0

    def start(self, name: str) -> int:
        environment = {"SECONDS": "0.1"}
        if self.together:
            environment |= {"KERASTUNER_TUNER_ID": name, "KERASTUNER_ORACLE_IP": "127.0.0.1"}
            environment |= {"KERASTUNER_ORACLE_PORT": self.port}
        log = self.folder / f"{name}.log"
        log.unlink(missing_ok=True)
        request = {"folder": str(self.folder / "out"), "axis": RATES, "limit": None, "log": str(log)}
        assert self.forker.stdin is not None
        assert self.forker.stdout is not None
        self.forker.stdin.write(json.dumps({**request, "environment": environment}) + "\n")
        self.forker.stdin.flush()
        return int(self.forker.stdout.readline())

    def said(self, name: str) -> str:
        log = self.folder / f"{name}.log"
        return log.read_text() if log.exists() else ""

    def left(self) -> list[str]:
        """Who has not ended."""
        return [name for name in self.running if "ended " not in self.said(name)]

    def kill(self, name: str) -> None:
        os.kill(self.running[name], signal.SIGKILL)
        self.running[name] = self.start(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--together", action="store_true")
    options = parser.parse_args()
    chance, counts, lost, searches = random.Random(options.seed), Counter[str](), [], 0
    names = ["chief", "one", "two"] if options.together else [ALONE]
    paths = os.pathsep.join([str(HERE.parents[2]), str(HERE)])
    forker = subprocess.Popen(
        [sys.executable, str(HERE / "drive_tuning.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, env={**os.environ, "PYTHONPATH": paths, "KERAS_BACKEND": "numpy"},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        calm = Party(forker, Path(place, "calm"), [ALONE])
        while calm.left():
            time.sleep(0.1)
        expected = found(Path(place, "calm", "out"))
        assert len(expected) == 12, calm.said(ALONE)
        while sum(counts.values()) < options.kills:
            searches += 1
            party = Party(forker, Path(place, str(searches)), names)
            end = time.monotonic() + 300
            while party.left() and time.monotonic() < end:
                time.sleep(chance.uniform(0.05, 1.0))
                left = party.left()
                if left and sum(counts.values()) < options.kills:
                    victim = chance.choice(left)
                    party.kill(victim)
                    counts[victim] += 1
                    print(f"\rsearch {searches}, {sum(counts.values())} kills", end="", flush=True)
            if party.left() or found(party.folder / "out") != expected:
                lost.append(f"search {searches}: left {party.left()}, {found(party.folder / 'out')}")
            lost += [party.said(name) for name in names if "ended 1" in party.said(name)]
    print(f"\n{searches} searches of {len(expected)} trials; killed: {dict(counts)}")
    print(f"lost or different: {lost or 'nothing'}")
    forker.kill()
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
