"""Damages files of cells, and looks what readers make of them. Of `kill_loop.py`."""

import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from modtf.engines.state import state_of
from modtf.results import find_cells, load_activations, load_history, load_results
from modtf.tasks.cell import Cell

CLOCK = ("seconds", "members_times_steps_per_second")
WAYS = ("flipped", "cut off", "emptied", "removed", "swapped")


def damage(chance: random.Random, path: Path, others: Sequence[Path], how: str | None = None) -> str:
    """Change a file, or swap it with another one of its name; return the way and the file's name."""
    how, content = how or chance.choice(WAYS), bytearray(path.read_bytes())
    same = [other for other in others if other.name == path.name and other != path]
    if how == "swapped" and same:
        other = chance.choice(same)
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif how == "removed":
        path.unlink()
    elif how == "cut off" or how == "emptied" or not content:
        path.write_bytes(content[: chance.randrange(len(content) + 1) if how == "cut off" else 0])
    else:
        for _ in range(chance.choice([1, 1, 5, 20])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        how = "flipped"
    return f"{path.name.split('.')[0] if path.name.startswith('events') else path.name} {how}"


def found_in(out: Path) -> dict[str, object]:
    """All numbers of finished cells but what a clock measured."""
    numbers: dict[str, object] = {}
    for folder in sorted(path.parent for path in out.glob("*/results.csv")):
        if not all((folder / name).exists() for name in ("history.csv", "activation.npz")):
            continue  # lost
        results = pd.read_csv(folder / "results.csv")
        numbers[f"{folder.name}/results"] = results[~results["measure"].isin(CLOCK)].to_csv()
        numbers[f"{folder.name}/history"] = (folder / "history.csv").read_text()
        with np.load(folder / "activation.npz") as arrays:
            numbers |= {f"{folder.name}/{name}": arrays[name].tobytes() for name in arrays}
        for path in folder.glob("*.keras"):
            content: Any = path.read_bytes()
            if zipfile.is_zipfile(path):
                with zipfile.ZipFile(path) as model:
                    content = model.testzip()
            numbers[f"{folder.name}/{path.name}"] = content
        left = [path.name for path in folder.iterdir() if "checkpoint" in path.name or path.name[0] == "."]
        numbers[f"{folder.name}/left behind"] = left
    return numbers


@cache
def undisturbed(out: Path) -> dict[str, list[Any]]:
    """Return `read` of undamaged cells."""
    return read(out)


def read(out: Path) -> dict[str, list[Any]]:
    """Return all numbers that are read of every cell, by the name of its folder."""
    values: dict[str, list[Any]] = {}
    for load in (load_results, load_history):
        for name, frame in load(out).groupby("folder", observed=True):
            values.setdefault(Path(str(name)).name, []).append(
                frame.drop(columns="folder").to_csv(index=False)
            )
    for one in load_activations(out):
        cell = next(cell for cell in find_cells(out) if cell.is_finished and cell.cell == one.cell)
        values[cell.path.name] += [one.last.tobytes(), one.best.tobytes(), one.history.tobytes()]
    return values


def finished_trial(loop: Any, calm: Path, chance: random.Random) -> None:
    """One file of finished cells: whatever is still read is right, and what is not is named."""
    out = loop.folder / "damaged"
    shutil.copytree(calm, out)
    files = sorted(path for path in out.glob("*/**/*") if path.is_file())
    owners = {cell.path: cell.definition for cell in find_cells(out)}
    whole, before = undisturbed(calm), {path: path.read_bytes() for path in files}
    how = damage(chance, chance.choice(files), files)
    loop.counts[f"damage of a finished cell's {how}"] += 1
    changed = [path for path in files if not path.exists() or path.read_bytes() != before[path]]
    hurt = {out / path.relative_to(out).parts[0] for path in changed}
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            values = read(out)
        states = {folder: state_of(cell, out).name for folder, cell in owners.items()}
    except ValueError as error:  # refused, in words
        if not any(str(folder) in str(error) for folder in hurt):
            loop.problem("wrong", f"{how}: the error does not say where: {error}")
    except Exception as error:
        loop.problem("traceback", f"{how}: {type(error).__name__}: {error}")
    else:
        for name, was in whole.items():
            if name in values and values[name] != was:
                loop.problem("wrong", f"{how}: {name} is read, and differs")
            elif name not in values and not any(name in str(warning.message) for warning in noted):
                loop.problem("lost", f"{how}: {name} is left out in silence")
            if name not in values and states[out / name] not in ("damaged", "open"):
                loop.problem("lost", f"{how}: {name} is {states[out / name]}, and would not be run again")
    shutil.rmtree(out)


def unfinished_trial(loop: Any, chance: random.Random) -> None:
    """One file of an unfinished cell: it is resumed from what its own training wrote, or not at all."""
    from modtf.training.callbacks.checkpoint import CheckpointCallback

    source, other = (chance.choice(loop.unfinished) for _ in range(2))
    out = loop.folder / "damaged"
    shutil.copytree(source, out)
    if other != source:
        shutil.copytree(other, out / "other")
    (folder,) = (path for path in out.iterdir() if path.name != "other")
    cell = Cell.from_dict(json.loads((folder / "config.json").read_text()))
    written = [*sorted(folder.glob("checkpoint*.npz")), *out.glob(f"other/{folder.name}/checkpoint*.npz")]
    # The other may be this cell, killed at another step.
    checkpoints = [dict(np.load(path)) for path in written]
    identity = str(checkpoints[0]["identity"])
    files = sorted(path for path in folder.iterdir() if path.is_file())
    others = [path for path in out.glob("other/*/*") if path.is_file()]  # not what was being written
    how = damage(chance, chance.choice(files), [*files, *others])
    loop.counts[f"damage of an unfinished cell's {how}"] += 1
    loaded: list[dict[str, Any]] = []

    class Recording(CheckpointCallback):
        """Compares and loads as in training, into nothing."""

        def _identity(self, model):
            return identity

        def _put(self, model, arrays):
            loaded.append(arrays)

    model: Any = SimpleNamespace(trainable_variables=[])
    model.optimizer = SimpleNamespace(build=lambda variables: None)
    try:
        state = state_of(cell, out).name
        if state == "finished":
            loop.problem("wrong", f"{how}: it counts as finished")
        if state != "damaged":
            Recording(folder / "checkpoint.npz").restore(model)
    except ValueError:  # refused, in words
        loop.counts["refused"] += 1
    except Exception as error:
        loop.problem("traceback", f"{how}: {type(error).__name__}: {error}")
    content = [{name: array.tobytes() for name, array in one.items()} for one in (*checkpoints, *loaded)]
    if loaded and content[-1] not in content[:-1]:
        loop.problem("wrong", f"{how}: another checkpoint is loaded")
    shutil.rmtree(out)
