"""The flags of `launch/bench.py` as requests, and a request's rows from a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from absl import flags

from modtf.cell import Cell
from modtf.checks import check_choice, check_integer
from modtf.families import FAMILIES
from modtf.launch.benchmark.measure import one_core_environment
from modtf.launch.settings import Settings, check_names, model_settings, router_settings, settings_given
from modtf.memory import check_members
from modtf.models.architectures.sizes import check_width
from modtf.models.routers import ROUTERS, default_variants
from modtf.plugins import load_plugin
from modtf.task import Task
from modtf.training.requirements import check_cell

PUBLISHED_MEMBERS = 25  # of a cell: 5 tasks x 5 seeds
BACKENDS = ("tensorflow", "jax")


def whole_table() -> dict[str, list[str]]:
    """What --all measures."""
    return {
        "arch": list(FAMILIES),
        "rules": ["2", "8", "32"],
        "width": ["32", "128"],
        "variant": default_variants(),
    }


def requests_of_flags(given: flags.FlagValues) -> list[dict[str, Any]]:
    """One request per (architecture, R, e).

    Raises:
        ValueError: on values that have no meaning, before anything runs.
    """
    table = whole_table()
    chosen = table if given.all else {name: getattr(given, name) for name in table}
    for name, values in chosen.items():
        if not values:
            raise ValueError(f"--{name} is empty; expected values separated by commas.")
    check_names_given(chosen)
    rules, widths = integers("--rules", chosen["rules"], 2), integers("--width", chosen["width"], 1)
    default = PUBLISHED_MEMBERS if given.evaluation else 1
    members, *more = integers("--members", given.members or [str(default)], 1)
    if more:
        raise ValueError(f"--members={','.join(given.members)}: several numbers need --device.")
    check_members(members, f"--members={members}")
    if given.backend != "tensorflow" and given.evaluation:
        raise ValueError(f"--evaluation needs TensorFlow: leave --backend={given.backend} out.")
    settings = benchmark_settings(given)
    variants = [variant for variant in ROUTERS if variant in chosen["variant"]]
    shared = {
        "variants": variants,
        "task": settings["task"],
        "router": router_settings(settings, variants),
        "members": members,
        **how_measured(given),
        "baseline": given.baseline,
        "evaluation": given.evaluation,
    }
    requests = []
    for arch, num_rules, width in dict.fromkeys(product(chosen["arch"], rules, widths)):
        model = model_options(settings, arch, num_rules, width, variants[0], members)
        requests.append({"arch": arch, "num_rules": num_rules, "width": width, "model": model, **shared})
    return requests


def check_names_given(chosen: Mapping[str, Sequence[str]]) -> None:
    """Raises `ValueError` on an unknown name in "arch" or "variant"."""
    for arch in chosen["arch"]:
        check_choice("--arch", arch, FAMILIES)
    for variant in chosen["variant"]:
        check_choice("--variant", variant, ROUTERS)


def benchmark_settings(given: flags.FlagValues) -> Settings:
    """What --set says, but for the protocol, which is the published one."""
    settings = settings_given(given)
    for namespace in ("training", "evaluation"):
        check_names(namespace, settings[namespace], [], "a benchmark, which is of the published protocol")
    return settings


def how_measured(given: flags.FlagValues) -> dict[str, Any]:
    """What all that is measured shares: repeats, seconds, backend and plug-ins."""
    if not given.seconds > 0:
        raise ValueError(f"--seconds={given.seconds} must be above 0.")
    return {
        "repeats": check_integer("--repeats", given.repeats, 1),
        "seconds": given.seconds,
        "backend": given.backend,
        "plugins": [load_plugin(location) for location in given.plugin],  # as any process finds them
    }


def model_options(
    settings: Settings, arch: str, num_rules: int, width: int, variant: str, members: int
) -> dict[str, Any]:
    """The architecture's options, of what --set gives, for a shape that can be built and fits into memory."""
    task = Task(arch, num_rules=num_rules, **settings["task"])
    architecture = task.family.architecture
    check_width(architecture, width, num_rules, settings["router"].get("modules"))
    model, _ = model_settings(settings, architecture)
    check_cell(Cell(task, width, variant, tuple((seed, 0) for seed in range(members))))
    return model


def integers(name: str, texts: Sequence[str], low: int) -> list[int]:
    """The numbers that a flag lists, each at least `low`."""
    try:
        values = [int(text) for text in texts]
    except ValueError:
        raise ValueError(
            f"{name}={','.join(texts)} is not valid; expected integers separated by commas."
        ) from None
    return [check_integer(name, value, low) for value in values]


def measure(request: dict[str, Any], tick: Callable[[], object]) -> list[dict[str, Any]]:
    """Rows of one request, from a process of its own.

    Raises:
        OSError: where that process fails; the message is its last line.
    """
    command = [sys.executable, "-m", "modtf.launch.benchmark.worker"]
    environment = {**os.environ, **one_core_environment(request["backend"])}
    with tempfile.TemporaryFile("w+") as noise:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=noise, text=True, env=environment
        ) as worker:
            assert worker.stdin is not None
            assert worker.stdout is not None
            try:
                worker.stdin.write(json.dumps(request))
                worker.stdin.close()
                for line in worker.stdout:
                    answer = json.loads(line)
                    if "rows" in answer:
                        return answer["rows"]
                    tick()
            except BaseException:
                worker.kill()
                raise
        noise.seek(0)
        last = (noise.read().strip().splitlines() or ["nothing was printed"])[-1]
        raise OSError(
            f"measuring {request['arch']} R={request['num_rules']} e={request['width']} failed: {last}"
        )
