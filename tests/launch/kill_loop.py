"""By hand: kills `launch/run.py` at random moments, goes on each time, and compares with an undisturbed run.

    python tests/launch/kill_loop.py --kills=100
    python tests/launch/kill_loop.py --kills=20 --arch=rnn

Every kill is SIGKILL, SIGTERM or SIGINT. Between a kill and the next start the newest checkpoint is now and
then cut off, emptied, removed, or some of its bytes changed; sometimes so is the one before. At the end it
prints what was done and what was lost or differs in any bit; exit status 1 unless that is nothing.

The command runs in forks of one process that has imported TensorFlow, with XLA's programs kept: so that
kills fall on what it does, and not on its start.
"""

import argparse
import os
import random
import runpy
import signal
import sys
import tempfile
import time
import zipfile
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
CLOCK = ("seconds", "members_times_steps_per_second")
KINDS = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 130}  # -> exit status
SMALL: dict[str, int | str] = {"evaluation.tokens": 640, "evaluation.batches": 2, "evaluation.batch_size": 16}
SMALL |= {"evaluation.draws": 5, "evaluation.tokens_per_draw": 160, "evaluation.activation_batch_size": 16}
SMALL |= {"training.evaluations": 10, "evaluation.conditions": "iid"}  # compiled once


def start(out: Path, arch: str, steps: int) -> int:
    """The command in a fork; returns the process id."""
    arguments = ["--rules=2", "--width=8", "--tasks=1", "--seeds=2", "--batch_size=8", "--variant=modular"]
    arguments += [f"--arch={arch}", f"--steps={steps}", f"--out={out}", "--learning_rate=0.01"]
    arguments += [f"--set={name}={value}" for name, value in SMALL.items()]
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        log = os.open(f"{out}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = [str(ROOT / "launch" / "run.py"), *arguments]
        runpy.run_path(sys.argv[0], run_name="__main__")
        status = 0
    except SystemExit as stopped:
        status = stopped.code if isinstance(stopped.code, int) else 1
    except KeyboardInterrupt:  # before the command is there to say so
        status = KINDS[signal.SIGINT]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def ended(child: int, seconds: float) -> int | None:
    """The exit status, or None if it is still running after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def until_a_kill(child: int, out: Path, lasts: float, chance: random.Random) -> int | None:
    """Waits for a random moment of a run, or one soon after its first checkpoint; as `ended`."""
    if chance.random() < 0.5:
        return ended(child, chance.uniform(0.0, lasts))
    while not any(out.glob("*/checkpoint.npz")):
        if (status := ended(child, 0.05)) is not None:
            return status
    return ended(child, chance.uniform(0.0, 0.2 * lasts))


def damage(out: Path, chance: random.Random) -> str | None:
    """Damages the newest checkpoint, if there is one; says how."""
    newest = next(out.glob("*/checkpoint.npz"), None)
    if newest is None:
        return None
    before = newest.with_name("checkpoint.previous.npz")
    both = before.exists() and chance.random() < 0.2
    kind = chance.choice(["cut off", "emptied", "removed", "changed"])
    for path in [newest, before] if both else [newest]:
        content = bytearray(path.read_bytes())
        if kind == "removed":
            path.unlink()
            continue
        if kind == "cut off":
            del content[chance.randrange(len(content)) :]
        elif kind == "emptied":
            content.clear()
        else:
            for _ in range(chance.randint(1, 20)):
                content[chance.randrange(len(content))] ^= chance.randint(1, 255)
        path.write_bytes(content)
    return f"{'both' if both else 'newest'} {kind}"


def found_in(out: Path) -> dict[str, object]:
    """All numbers of a finished run but what a clock measured."""
    (folder,) = (path.parent for path in out.glob("*/results.csv"))
    results = pd.read_csv(folder / "results.csv")
    numbers: dict[str, object] = {"results": results[~results["measure"].isin(CLOCK)].to_csv()}
    numbers["history"] = (folder / "history.csv").read_text()
    with np.load(folder / "activation.npz") as arrays:
        numbers |= {f"activation/{name}": arrays[name].tobytes() for name in arrays}
    for name in ("last", "best"):
        archive = folder / f"{name}.keras"
        with tempfile.TemporaryDirectory() as unpacked:
            zipfile.ZipFile(archive).extract("model.weights.h5", unpacked)
            with h5py.File(Path(unpacked, "model.weights.h5")) as file:
                file.visititems(
                    lambda path, item, name=name: (
                        numbers.update({f"{name}/{path}": item[()].tobytes()})
                        if isinstance(item, h5py.Dataset)
                        else None
                    )
                )
    left = [path.name for path in folder.iterdir() if "checkpoint" in path.name or path.name[0] == "."]
    return {**numbers, "left behind": left}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--arch", default="mlp,mha,rnn")
    options = parser.parse_args()
    chance, counts, damaged = random.Random(options.seed), Counter[str](), Counter[str]()
    wrong, slowest, begun, runs = list[str](), 0.0, time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TF_XLA_FLAGS"] = f"--tf_xla_persistent_cache_directory={folder}/xla"
        import modtf.analysis
        import modtf.engines.cell  # noqa: F401  # imports TensorFlow, and starts nothing of it

        archs = options.arch.split(",")
        calm, lasted = dict[str, dict[str, object]](), dict[str, float]()
        for arch in archs:
            out, now = Path(folder, f"calm-{arch}"), time.monotonic()
            assert ended(start(out, arch, options.steps), 3600) == 0, Path(f"{out}.log").read_text()
            calm[arch], lasted[arch] = found_in(out), time.monotonic() - now
            print(f"{arch}: undisturbed in {lasted[arch]:.1f} s", flush=True)
        while sum(counts.values()) < options.kills and time.monotonic() - begun < options.seconds:
            arch, runs = archs[runs % len(archs)], runs + 1
            out = Path(folder, f"run{runs}")
            while True:
                child, now = start(out, arch, options.steps), time.monotonic()
                more = sum(counts.values()) < options.kills
                status = until_a_kill(child, out, lasted[arch], chance) if more else ended(child, 3600)
                if status is None:
                    kind = chance.choice(list(KINDS))
                    os.kill(child, kind)
                    now = time.monotonic()
                    status = ended(child, 3600)
                    counts[kind.name] += 1
                    if kind != signal.SIGKILL:
                        slowest = max(slowest, time.monotonic() - now)
                    if status not in (KINDS[kind], -kind, 0):  # 0: it was just ending
                        wrong.append(f"run {runs}, {arch}: {kind.name} ended with {status}")
                    if chance.random() < 0.5 and (how := damage(out, chance)):
                        damaged[how] += 1
                elif status != 0:
                    wrong.append(
                        f"run {runs}, {arch}: failed with {status}: {Path(f'{out}.log').read_text()[-2000:]}"
                    )
                else:  # programs are compiled by now, and the machine may be less busy
                    lasted[arch] = min(lasted[arch], time.monotonic() - now)
                if status == 0 or len(wrong) > 5:
                    break
            found = found_in(out) if status == 0 else {}
            wrong += [
                f"run {runs}, {arch}: {name}" for name in calm[arch] if found.get(name) != calm[arch][name]
            ]
            print(f"run {runs}, {arch}: {dict(counts)}, damaged: {dict(damaged)}, wrong: {wrong}", flush=True)
    print(f"{runs} runs, {sum(counts.values())} kills: {dict(counts)}; damaged checkpoints: {dict(damaged)}")
    print(f"slowest end after SIGTERM or SIGINT: {slowest:.1f} s; lost or different: {wrong or 'nothing'}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
