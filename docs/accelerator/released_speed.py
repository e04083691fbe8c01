"""Measures how many models an hour the paper's released code trains on a card: one at a time, and several.

Run it where PyTorch is installed, beside a checkout of the released code, on the card that
`benchmarks/bench.py --device=gpu` measured:

    python docs/accelerator/released_speed.py --code=PATH_TO_MOD_ARCH --json=released.json

It imports `data.py` and `model.py` of the released code as they are, makes batches with NumPy and hands them
over as its `main.py` does, and trains for some seconds: wall time, up to where the device has done all steps.
Processes are doubled until that gains little. Rows that are in the file are not measured again; the file is
what `benchmarks/bench.py --released` compares with. Published steps over steps a second is a model's time;
the evaluations of `main.py` are left out, on both sides.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

FIDELITY = Path(__file__).resolve().parents[1] / "fidelity"
sys.path.insert(0, str(FIDELITY))  # for the processes, too

from cells import BATCH_SIZE, Matched  # noqa: E402

# all with one number as output
SETTINGS = {"mlp": "regression", "mha": "regression", "rnn": "classification"}
PUBLISHED_STEPS = {"mlp": 100_000, "mha": 500_000, "rnn": 500_000}
SHAPES = ((8, 32), (8, 128), (32, 32))  # (R, e), as in the table of benchmarks/bench.py
WARM_UP = 20  # steps
ENOUGH = 1.1  # times as many models an hour, below which more processes are not tried
KEY = ("arch", "num_rules", "width", "variant", "processes")


def training_step(code: Path, cell: Matched, variant: str, device: str):
    """Return a function that takes one training step, as `train_step` of `main.py` does."""
    import torch
    from released import load, make_batch, make_model, make_training

    data, module = load(code, cell)
    model = make_model(module, cell, variant).to(device)
    optimizer, criterion = make_training(model, cell)

    def step() -> None:
        model.train()
        model.zero_grad()
        inputs, label, _ = make_batch(data, cell, 0, BATCH_SIZE)
        out, _ = model(*(tensor.to(device) for tensor in inputs))
        criterion(out, label.to(device)).backward()
        if cell.arch == "rnn":
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def work(connection, code: Path, device: str) -> None:
    """Run a process that trains what it is told to, when it is told to begin."""
    import torch

    torch.backends.cudnn.deterministic = True
    if device == "cpu":
        torch.Tensor.cuda = lambda tensor, *_: tensor  # the released rnn asks for a GPU
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    while (told := connection.recv()) is not None:
        cell, variant, seconds, processes = told
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // processes))
        try:
            step = training_step(code, cell, variant, device)
            for _ in range(WARM_UP):
                step()
            wait()
            connection.send("ready")
            connection.recv()
            began, steps = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                step()
                steps += 1
            wait()
            connection.send((steps, time.perf_counter() - began))
        except Exception as error:  # out of memory, mostly
            connection.send(f"{type(error).__name__}: {error}"[:300])
        finally:
            step = None
            if device == "cuda":
                torch.cuda.empty_cache()


def measure(workers: list, cell: Matched, variant: str, seconds: float) -> dict:
    """Return the row of as many processes as there are connections in `workers`."""
    for connection in workers:
        connection.send((cell, variant, seconds, len(workers)))
    answers = [connection.recv() for connection in workers]
    ready = [connection for connection, answer in zip(workers, answers, strict=True) if answer == "ready"]
    for connection in ready:
        connection.send("go")
    found = [connection.recv() for connection in ready]
    row = {"arch": cell.arch, "setting": cell.setting, "num_rules": cell.num_rules, "width": cell.width,
           "variant": variant, "processes": len(workers)}  # fmt: skip
    failed = [answer for answer in [*answers, *found] if isinstance(answer, str) and answer != "ready"]
    if failed:
        return {**row, "failed": failed[0], "models_per_hour": 0.0}
    rate = sum(steps / taken for steps, taken in found)
    return {
        **row,
        "step_ms": 1e3 * len(workers) / rate,  # of one process
        "steps_per_s": rate,
        "models_per_hour": 3600 * rate / PUBLISHED_STEPS[cell.arch],
        "steps": sum(steps for steps, _ in found),
    }


def device_name(device: str) -> str:
    import torch

    if device == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise SystemExit("--device=cuda: PyTorch finds no GPU here; --device=cpu runs the same steps here.")
    return torch.cuda.get_device_name()


def write(path: Path, rows: list[dict]) -> None:
    """Write the whole file; a kill leaves the one before."""
    temporary = path.with_suffix(".writing")
    temporary.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    temporary.rename(path)


def shapes(text: str) -> list[tuple[int, int]]:
    return [tuple(map(int, shape.split("x"))) for shape in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--code", type=Path, required=True, help="checkout of the released code")
    parser.add_argument("--json", type=Path, required=True, help="file of rows, which grows")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--arch", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--shapes", type=shapes, default=SHAPES, help="RxE,RxE,...: 8x32,8x128")
    parser.add_argument("--variant", default="modular")
    parser.add_argument("--processes", type=int, default=16, help="at once, at most")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--minutes", type=float, default=7.0, help="after which nothing new begins")
    given = parser.parse_args()
    end, name = time.monotonic() + 60 * given.minutes, device_name(given.device)
    rows = json.loads(given.json.read_text(encoding="utf-8")) if given.json.exists() else []
    context, workers, running = multiprocessing.get_context("spawn"), [], []
    for _ in range(given.processes):
        ours, theirs = context.Pipe()
        running.append(context.Process(target=work, args=(theirs, given.code, given.device), daemon=True))
        running[-1].start()
        workers.append(ours)
    for num_rules, width in given.shapes:
        for arch in given.arch:
            cell = Matched(arch, SETTINGS[arch], num_rules, PUBLISHED_STEPS[arch], width=width)
            count, best = 1, 0.0
            while count <= given.processes and time.monotonic() < end:
                key = (arch, num_rules, width, given.variant, count)
                row = next((row for row in rows if tuple(row[k] for k in KEY) == key), None)
                if row is None:
                    row = {**measure(workers[:count], cell, given.variant, given.seconds), "device": name}
                    rows.append(row)
                    write(given.json, rows)
                    print(f"{arch} R={num_rules} e={width} {given.variant}, {count} at once: "
                          f"{row.get('failed') or format(row['models_per_hour'], '.4g') + ' models an hour'}",
                          flush=True)  # fmt: skip
                if row["models_per_hour"] < ENOUGH * best:
                    break
                best, count = row["models_per_hour"], 2 * count
    for connection in workers:
        connection.send(None)
    for process in running:
        process.join(10)


if __name__ == "__main__":
    main()
