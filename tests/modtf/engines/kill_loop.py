"""By hand: kills a local study at random moments, goes on each time, and compares with an undisturbed one.

    python tests/modtf/engines/kill_loop.py --kills=50
    python tests/modtf/engines/kill_loop.py --kills=10 --real       # trains; minutes

Every kill is a SIGKILL, or now and then a SIGSTOP of some seconds, of the driver or of a worker. At the end
it prints what was killed and what was lost; exit status 1 unless that is nothing.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import pandas as pd

HERE = Path(__file__).parent
CLOCK = ("seconds", "members_times_steps_per_second")


def start(out: Path, options: argparse.Namespace, speed: str) -> subprocess.Popen[bytes]:
    """A driver with two workers."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[2]), str(HERE)])}
    function = "modtf.engines.work:train_cell" if options.real else f"dummy:{speed}"
    arguments = [out, function, 2, options.steps, options.cells]
    command = [sys.executable, HERE / "drive.py", *arguments]
    return subprocess.Popen([str(part) for part in command], env=environment, stdout=subprocess.DEVNULL)


def children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def disturb(driver: subprocess.Popen[bytes], chance: random.Random) -> str:
    """Kills or stops somebody; says whom."""
    workers = children(driver.pid)
    victim = chance.choice(["driver", "worker", "worker"]) if workers else "driver"
    pid = driver.pid if victim == "driver" else chance.choice(workers)
    kind = chance.choice([signal.SIGKILL] * 4 + [signal.SIGSTOP])
    try:
        os.kill(pid, kind)
        if kind == signal.SIGSTOP:
            time.sleep(3)  # nobody takes over what only sleeps
            os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        return "nobody: it had ended"
    return f"{victim}, {kind.name}"


def results(out: Path) -> dict[str, pd.DataFrame | str]:
    """The results of every finished cell, without what a clock measured."""
    found: dict[str, pd.DataFrame | str] = {}
    for path in sorted(out.glob("*/results.csv")):
        text = path.read_text()
        if "measure" in text:
            frame = pd.read_csv(path)
            text = frame[~frame["measure"].isin(CLOCK)].to_csv(index=False)
        found[path.parent.name] = text
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cells", type=int, default=12)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--real", action="store_true")
    options = parser.parse_args()
    chance, counts, studies = random.Random(options.seed), Counter[str](), 0
    with tempfile.TemporaryDirectory() as folder:
        calm = Path(folder, "calm")
        start(calm, options, "steps").wait()
        expected = results(calm)
        assert len(expected) == options.cells
        lost = []
        while sum(counts.values()) < options.kills:
            studies += 1
            out = Path(folder, f"study{studies}")
            while True:
                driver = start(out, options, "slow_steps")
                for _ in range(chance.randint(1, 3)):
                    longest = 20.0 if options.real else 3.0
                    time.sleep(chance.uniform(0.3, longest))
                    if driver.poll() is not None or sum(counts.values()) >= options.kills:
                        break
                    counts[disturb(driver, chance)] += 1
                    print(f"\rstudy {studies}, {sum(counts.values())} disturbances", end="", flush=True)
                if driver.wait() == 0:
                    break
            found = results(out)
            lost += [f"study {studies}: {name}" for name in expected if found.get(name) != expected[name]]
            again = time.monotonic()
            assert start(out, options, "refuse").wait() == 0, "something was run twice"
            print(f"; again in {time.monotonic() - again:.1f} s: nothing to do")
    print(f"{studies} studies of {options.cells} cells; disturbed: {dict(counts)}")
    print(f"lost or different: {lost or 'nothing'}")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
