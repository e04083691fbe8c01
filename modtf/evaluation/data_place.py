"""Where data are made: on the host, or by the program that reads them."""

from functools import cache

import keras

from modtf.checks import check_choice
from modtf.datasets.device import runs_on_device
from modtf.families import Family
from modtf.models.kernels.by_device import on_cpu
from modtf.protocol import PLACES


def choose_place(name: str, family: Family, why_not: str | None = None) -> str:
    """Where the data of a family are made: "host" or "device".

    Args:
        name: "auto" is the device on an accelerator, which no host can feed, and the host on a CPU, where
            numbers are made several times faster outside XLA.
        family: of the tasks.
        why_not: what else keeps data from being made by a compiled program, in words.

    Raises:
        ValueError: on another name.
    """
    check_choice("data", name, PLACES)
    if name == "host" or (name == "auto" and on_cpu()):
        return "host"
    if keras.backend.backend() != "tensorflow":
        why_not = why_not or f"Keras runs on {keras.backend.backend()}, not on TensorFlow"
    elif not runs_on_device(family):
        why_not = why_not or f"those of the family {family.name!r} are written for the host alone"
    if why_not is None:
        return "device"
    _say(f"data={name}: data are made on the host, because {why_not}.")
    return "host"


@cache
def _say(line: str) -> None:
    """Prints a line once, however many parts of a training ask."""
    print(line)
