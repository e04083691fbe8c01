"""By hand: kills `run` and `sweep` at random moments, goes on each time, and compares with undisturbed ones.

    python tests/launch/kill_loop.py --kills=100
    python tests/launch/kill_loop.py --kills=20 --command=sweep --arch=rnn

Every kill is SIGKILL, SIGTERM or SIGINT of the command, or SIGKILL of one of its workers. Between a kill and
the next start the newest checkpoint is now and then cut off, emptied, removed, or some of its bytes changed;
sometimes so is the one before. What is finished is started once more, and must stay as it is. At the end it
prints what was done and what was lost or differs in any bit; exit status 1 unless that is nothing.

The commands run in forks of one process that has imported TensorFlow, with XLA's programs kept: so that
kills fall on what they do, and not on their start.
"""

import argparse
import os
import random
import runpy
import signal
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
CLOCK = ("seconds", "members_times_steps_per_second")
KINDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}  # -> exit status
SMALL = {"tokens": 640, "batches": 2, "batch_size": 16, "draws": 5, "tokens_per_draw": 160}
SMALL |= {"activation_batch_size": 16}


def start(command: str, arch: str, out: Path, steps: int) -> int:
    """The command in a fork; returns the process id."""
    arguments = ["--rules=2", "--width=8", "--tasks=1", "--seeds=2", "--batch_size=8", "--learning_rate=0.01"]
    arguments += [f"--arch={arch}", f"--steps={steps}", f"--out={out}", "--variant=modular,gt_modular"]
    arguments += [f"--set=evaluation.{name}={value}" for name, value in SMALL.items()]
    arguments += ["--set=training.evaluations=10", "--set=evaluation.conditions=iid"]
    sys.stdout.flush()
    if child := os.fork():
        return child
    status: object = 1
    try:
        log = os.open(f"{out}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = [str(ROOT / "launch" / f"{command}.py"), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as stopped:
        status = stopped.code
    except KeyboardInterrupt:  # before the command is there to say so
        status = KINDS[signal.SIGINT]
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status if isinstance(status, int) else 1)


def ended(child: int, seconds: float) -> int | None:
    """The exit status, or None if it is still running after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def damage(out: Path, chance: random.Random) -> str:
    """Now and then damages the newest checkpoint, if there is one; says how."""
    newest = next(out.glob("*/checkpoint.npz"), None)
    if newest is None or chance.random() < 0.5:
        return ""
    before = newest.with_name("checkpoint.previous.npz")
    both, kind = before.exists() and chance.random() < 0.2, chance.choice(["cut off", "removed", "changed"])
    for path in [newest, before] if both else [newest]:
        content = bytearray(path.read_bytes())
        if kind == "removed":
            path.unlink()
            continue
        if kind == "cut off":
            del content[chance.randrange(len(content)) * chance.randint(0, 1) :]
        else:
            for _ in range(chance.randint(1, 20)):
                content[chance.randrange(len(content))] ^= chance.randint(1, 255)
        path.write_bytes(content)
    return f"{'both' if both else 'newest'} {kind}"


def found_in(out: Path) -> dict[str, object]:
    """All numbers of finished cells but what a clock measured."""
    numbers: dict[str, object] = {}
    for folder in sorted(path.parent for path in out.glob("*/results.csv")):
        results = pd.read_csv(folder / "results.csv")
        numbers[f"{folder.name}/results"] = results[~results["measure"].isin(CLOCK)].to_csv()
        numbers[f"{folder.name}/history"] = (folder / "history.csv").read_text()
        with np.load(folder / "activation.npz") as arrays:
            numbers |= {f"{folder.name}/{name}": arrays[name].tobytes() for name in arrays}
        for path in folder.glob("*.keras"):
            numbers[f"{folder.name}/{path.name}"] = zipfile.ZipFile(path).testzip()
        left = [path.name for path in folder.iterdir() if "checkpoint" in path.name or path.name[0] == "."]
        numbers[f"{folder.name}/left behind"] = left
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--arch", default="mlp,mha,rnn")
    parser.add_argument("--command", default="run,sweep")
    options = parser.parse_args()
    chance, counts, damaged = random.Random(options.seed), Counter[str](), Counter[str]()
    wrong, begun, runs = list[str](), time.monotonic(), 0
    kinds = [(c, arch) for arch in options.arch.split(",") for c in options.command.split(",")]
    calm, lasted = dict[tuple[str, str], dict[str, object]](), dict[tuple[str, str], float]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={folder}/xla"
        import modtf.analysis
        import modtf.engines.cell  # noqa: F401  # imports TensorFlow, and starts nothing of it

        for kind in kinds:
            out, begin = Path(folder, "calm-{}-{}".format(*kind)), time.monotonic()
            status = ended(start(*kind, out, options.steps), 3600)
            assert status == 0, Path(f"{out}.log").read_text()
            calm[kind], lasted[kind] = found_in(out), time.monotonic() - begin
        while sum(counts.values()) < options.kills and time.monotonic() - begun < options.seconds:
            kind, runs, status = kinds[runs % len(kinds)], runs + 1, -1
            out = Path(folder, f"run{runs}")
            while status != 0 and len(wrong) < 5:
                child, lasts, begin = start(*kind, out, options.steps), lasted[kind], time.monotonic()
                more = sum(counts.values()) < options.kills
                found = ended(child, chance.uniform(0.0, lasts) if more else 3600)
                workers = Path(f"/proc/{child}/task/{child}/children")
                if found is None and chance.random() < 0.4 and (pids := workers.read_text().split()):
                    os.kill(int(chance.choice(pids)), signal.SIGKILL)
                    counts["worker"] += 1
                    found = ended(child, chance.uniform(0.0, lasts))
                if found is None:
                    how = chance.choice(list(KINDS))
                    os.kill(child, how)
                    found, expected = ended(child, 3600), (KINDS[how], -how, 0)  # 0: it was just ending
                    counts[how.name] += 1
                    damaged[damage(out, chance)] += 1
                else:  # programs are compiled by now, and the machine may be less busy
                    expected, lasted[kind] = (0, 0, 0), min(lasts, time.monotonic() - begin)
                status = 1 if found is None else found
                if status not in expected:
                    said = Path(f"{out}.log").read_text()[-2000:]
                    wrong.append(f"run {runs}, {kind}: ended with {status}: {said}")
            left, times = found_in(out), {path: path.stat().st_mtime_ns for path in out.glob("*/*")}
            differ = [name for name, was in calm[kind].items() if left.get(name, 0) != was]
            wrong += [f"run {runs}, {kind}: {name}" for name in differ]
            again = ended(start(*kind, out, options.steps), 3600)
            if again != 0 or times != {path: path.stat().st_mtime_ns for path in out.glob("*/*")}:
                wrong.append(f"run {runs}, {kind}: done twice")
            if "Traceback" in Path(f"{out}.log").read_text():
                wrong.append(f"run {runs}, {kind}: a traceback")
            print(f"run {runs}, {kind}: {dict(counts)}, damaged: {dict(damaged)}, wrong: {wrong}", flush=True)
    print(f"{runs} runs, {sum(counts.values())} kills: {dict(counts)}; damaged checkpoints: {dict(damaged)}")
    print(f"lost or different: {wrong or 'nothing'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
