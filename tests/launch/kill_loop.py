"""By hand: kills `run` and `sweep` at random, fills their disk, damages their files.

    python tests/launch/kill_loop.py --kills=200 --damages=300 --disks=20 --seed=1
    python tests/launch/kill_loop.py --kills=20 --commands=sweep --arch=rnn --engine=local

There are three kinds of trials. A kill sends SIGKILL, SIGTERM or SIGINT to a command at a random moment, or
SIGKILL to one of its workers; then the same command resumes. A full disk fills at a random byte, and then has
room again (a small one is mounted, which needs a superuser). A damage flips bytes of one cell file, cuts,
empties or removes it, or swaps it with another cell's. Half of the kills also damage a file. A finished
command is started once more, and must change nothing.

The counts over all trials are: lost, numbers of an undisturbed run that are missing without a message; wrong,
numbers that differ in any bit; twice, finished cells that were trained again; and tracebacks. The exit status
is 1 unless all are 0. With --kept the counts are kept, and the next call adds to them.

The commands run in forks of one process that has imported TensorFlow, and XLA's programs are kept. So kills
hit the work of the commands, rather than their start.
"""

import argparse
import contextlib
import gc
import json
import os
import random
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import here  # noqa: F401  # registers the engine
from damages import damage, finished_trial, found_in, unfinished_trial

ROOT = Path(__file__).parents[2]
KINDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}  # -> exit status
SMALL = {"tokens": 640, "batches": 2, "batch_size": 16, "draws": 5, "tokens_per_draw": 160}
SMALL |= {"activation_batch_size": 16}
DISK = 64 << 20  # bytes of a disk on which there is room


class Loop:
    """The state that trials share: results of undisturbed commands, their durations, the counts."""

    def __init__(self, options: argparse.Namespace, folder: Path, counts: Counter[str]):
        self.options, self.folder, self.counts = options, folder, counts
        self.calm: dict[str, dict[str, object]] = {}
        self.lasted: dict[str, float] = {}
        self.problems: list[str] = []
        self.unfinished: list[Path] = []  # cells that kills left unfinished

    def begin(self, command: str, out: Path) -> int:
        """The command in a fork; returns the process id."""
        arguments = ["--rules=2", "--width=8", "--tasks=1", "--seeds=1", "--batch_size=8"]
        arguments += [f"--arch={self.options.arch}", f"--steps={self.options.steps}", f"--out={out}"]
        arguments += ["--variant=modular,gt_modular", "--learning_rate=0.01"]
        arguments += [f"--set=evaluation.{name}={value}" for name, value in SMALL.items()]
        arguments += ["--set=training.evaluations=10", "--set=evaluation.conditions=iid"]
        if command == "sweep":
            arguments += ["--retry_failed", *(["--engine=here"] if self.options.engine == "here" else [])]
        elif self.options.engine == "here":
            arguments += ["--workers=1"]
        sys.stdout.flush()
        if child := os.fork():
            return child
        status: object = 1
        gc.callbacks.clear()  # JAX's, which no command has before it is under way: it would swallow a Ctrl-C
        try:
            log = os.open(f"{out}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.argv = [str(ROOT / "launch" / f"{command}.py"), *arguments]
            runpy.run_path(sys.argv[0], run_name="__main__")
            status = 0
        except SystemExit as stopped:
            status = stopped.code or 0
        except KeyboardInterrupt:  # before the command is there to say so
            status = KINDS[signal.SIGINT]
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status if isinstance(status, int) else 1)

    def judge(self, command: str, out: Path, what: str) -> None:
        """Counts what is not as in the undisturbed run; `out` is finished."""
        left, times = found_in(out), {path: path.stat().st_mtime_ns for path in out.glob("*/*")}
        for name, was in self.calm[command].items():
            if left.get(name, 0) != was:
                self.problem("wrong" if name in left else "lost", f"{what}: {name} {left.get(name)!s:.50}")
        again = ended(self.begin(command, out), 3600)
        if again != 0 or times != {path: path.stat().st_mtime_ns for path in out.glob("*/*")}:
            self.problem("twice", what)
        if "Traceback" in (said := Path(f"{out}.log").read_text()):
            self.problem("traceback", f"{what}: {said[max(0, said.find('Traceback') - 200) :][:1700]}")
        shutil.rmtree(out)

    def problem(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        self.problems.append(f"{kind}: {text}")
        print(self.problems[-1], flush=True)


def ended(child: int, seconds: float) -> int | None:
    """The exit status, or None if it is still running after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def kills(loop: Loop, command: str, chance: random.Random) -> None:
    """One command, killed until it is finished: at most four times."""
    out, left = loop.folder / f"{command}{loop.counts['runs']}", chance.randint(1, 4)
    loop.counts["runs"] += 1
    status, is_whole = -1, True
    while status != 0:
        child, begun, lasts = loop.begin(command, out), time.monotonic(), loop.lasted[command]
        found = ended(child, chance.uniform(0.0, lasts) if left else 3600)
        workers = Path(f"/proc/{child}/task/{child}/children")
        if found is None and chance.random() < 0.4 and (pids := workers.read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(chance.choice(pids)), signal.SIGKILL)
                loop.counts["kills: worker"] += 1
            found = ended(child, chance.uniform(0.0, lasts))
        expected: tuple[int, ...] = (0,)
        if found is None:
            how = chance.choice(list(KINDS))
            os.kill(child, how)
            found, expected, left = ended(child, 3600), (KINDS[how], -how, 0), left - 1  # 0: it was ending
            loop.counts[f"kills: {how.name}"] += 1
            left_there = {p.parent for p in out.glob("*/checkpoint*.npz")}
            left_there -= {p.parent for p in out.glob("*/manifest.json")}  # killed just after its end
            if is_whole and left_there and len(loop.unfinished) < 20:
                loop.unfinished.append(loop.folder / f"unfinished{len(loop.unfinished)}")
                shutil.copytree(one := left_there.pop(), loop.unfinished[-1] / one.name)
            files = [p for p in sorted(out.glob("*/*.*")) if p.is_file() and p.suffix != ".keras"]
            if files and chance.random() < 0.5:
                is_whole, found = False, found or -how  # a command that just ended starts again, too
                loop.counts[f"between kills: {damage(chance, chance.choice(files), files)}"] += 1
        elif left:  # programs are compiled by now, and the machine may be less busy
            loop.lasted[command] = min(lasts, time.monotonic() - begun)
        status = 1 if found is None else found
        said = Path(f"{out}.log").read_text() if Path(f"{out}.log").exists() else ""
        if status not in expected and not (status == 1 and obeyed(said, loop)):
            loop.problem("wrong", f"{command} ended with {status}: {said[-1500:]}")
            return
    loop.judge(command, out, f"{command} {loop.counts['runs']}")


def obeyed(said: str, loop: Loop) -> bool:
    """Move or delete what an error says is to go; return whether there was such an error."""
    last = "\n".join(said.splitlines()[-4:])
    if "was renamed or copied. Move it away" in last:
        shutil.rmtree(last.split("error: ")[-1].split(" holds ")[0])
        loop.counts["refused, and moved away"] += 1
    elif "is the checkpoint of another run" in last:
        stray = Path(last.split(" is the checkpoint of")[0].split(" ")[-1])
        for path in stray.parent.glob("checkpoint*"):
            path.unlink()
        loop.counts["refused, and deleted"] += 1
    else:
        return False
    return True


def full_disk(loop: Loop, command: str, chance: random.Random) -> None:
    """A command on a disk that is full at some byte, then on one with room."""
    out = loop.folder / f"disk{loop.counts['full disk']}"
    out.mkdir()
    size = chance.randrange(1 << 14, 1 << 19)
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(out), "-o"]
    subprocess.run([*mount, f"size={size}"], check=True)
    try:
        first = ended(loop.begin(command, out / "out"), 3600)
        shutil.move(f"{out}/out.log", f"{out}.first.log")
        subprocess.run([*mount, f"size={DISK},remount"], check=True)
        said = Path(f"{out}.first.log").read_text()
        if first not in (0, 1) or "Traceback" in said or (first == 1 and "error: " not in said):
            loop.problem("traceback", f"full disk of {size} bytes: status {first}: {said[-1500:]}")
        if ended(loop.begin(command, out / "out"), 3600) != 0:
            said = Path(f"{out}/out.log").read_text()
            loop.problem("lost", f"after a full disk of {size} bytes: {said[-1500:]}")
            return
        loop.counts["full disk"] += 1
        loop.judge(command, out / "out", f"full disk of {size} bytes")
    finally:
        subprocess.run(["umount", "--lazy", str(out)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--damages", type=int, default=0)
    parser.add_argument("--disks", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--arch", default="mlp")
    parser.add_argument("--commands", default="run,sweep")
    parser.add_argument("--engine", default="here", help="of sweep: here, in its own process, or local")
    parser.add_argument("--kept", help="a JSON file of counts")
    options = parser.parse_args()
    kept = Path(options.kept) if options.kept else None
    counts = Counter[str](json.loads(kept.read_text()) if kept and kept.exists() else {})
    end = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={folder}/xla"
        import modtf.analysis
        import modtf.engines.cell  # noqa: F401  # imports TensorFlow, and starts nothing of it
        from modtf.training.callbacks import checkpoint

        checkpoint.EVERY = 0.05  # seconds: kills hit the writing of checkpoints, and resume from them

        loop, commands = Loop(options, Path(folder), counts), options.commands.split(",")
        for command in commands:
            out, begun = Path(folder, f"calm-{command}"), time.monotonic()
            assert ended(loop.begin(command, out), 3600) == 0, Path(f"{out}.log").read_text()
            loop.calm[command], loop.lasted[command] = found_in(out), time.monotonic() - begun
            print(f"{command} lasts {loop.lasted[command]:.1f} s", flush=True)
        calm = Path(folder, f"calm-{commands[0]}")

        def done(name: str) -> int:
            return sum(number for key, number in counts.items() if key.startswith(name))

        rounds: list[tuple[Callable[[], bool], Callable[[random.Random], object]]] = [
            (lambda: done("kills") < options.kills, lambda c: kills(loop, c.choice(commands), c)),
            (lambda: counts["full disk"] < options.disks, lambda c: full_disk(loop, c.choice(commands), c)),
            (lambda: done("damage of a f") < options.damages // 2, lambda c: finished_trial(loop, calm, c)),
            (lambda: done("damage of an u") < -(-options.damages // 2) and bool(loop.unfinished),
             lambda c: unfinished_trial(loop, c)),
        ]  # fmt: skip
        while any(goes_on() for goes_on, _ in rounds) and time.monotonic() < end and len(loop.problems) < 9:
            for goes_on, trial in rounds:
                if goes_on():
                    counts["trials begun"] += 1
                    trial(random.Random(f"{options.seed} {counts['trials begun']}"))
            if kept:
                kept.write_text(json.dumps(counts))
            print(dict(counts), flush=True)
    print({name: counts[name] for name in ("lost", "wrong", "twice", "traceback")}, dict(counts))
    print("lost or different:", loop.problems or "nothing")
    sys.exit(any(counts[name] for name in ("lost", "wrong", "twice", "traceback")))


if __name__ == "__main__":
    main()
