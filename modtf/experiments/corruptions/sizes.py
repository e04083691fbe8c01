"""The parameters of the networks for corrupted images in closed form, without modules that trainers add."""

from itertools import pairwise
from typing import Any

from modtf.experiments.corruptions.conditions import CORRUPTIONS, DATASETS
from modtf.models.architectures.sizes import dense, register_size
from modtf.tasks.cell import Cell

COLOURS = 3  # channels of an image


@register_size("corruptions", 8.9e-10, 3.0, in_turn=True)
def corruptions(
    cell: Cell, modules: int, kind: str, labelled: bool = False, site: int | None = None, **_: Any
) -> int:
    """Return the parameters of `modtf.experiments.corruptions.network`."""
    w, data = cell.width, DATASETS[cell.task.dataset]
    channels = COLOURS + labelled * len(CORRUPTIONS)
    total, sites = (_resnet if data.coloured else _small)(w, channels)
    default = 8 if data.coloured else 4
    own, module = sites[default if site is None else site]
    routed = (modules - 1) * module + modules * dense(own, 1) if kind == "scores" else 0
    return total + dense(8 * w, data.classes) + routed


def _conv(size: int, inputs: int, outputs: int) -> int:
    return dense(size * size * inputs, outputs)


def _small(w: int, channels: int) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return the parameters of all parts of the small network but the last; and the channels and the
    module's parameters of the sites that have a closed form."""
    sizes = (channels, w, 2 * w, 4 * w, 4 * w)
    total = sum(_conv(5, *pair) for pair in pairwise(sizes)) + dense(16 * w, 8 * w)
    return total, {site: (own, 2 * _conv(5, own, own)) for site, own in enumerate(sizes) if site} | {
        5: (8 * w, 2 * dense(8 * w, 8 * w))
    }


def _resnet(w: int, channels: int) -> tuple[int, dict[int, tuple[int, int]]]:
    """Return the same for a ResNet18."""
    widths = (w, w, w, 2 * w, 2 * w, 4 * w, 4 * w, 8 * w, 8 * w)
    total = 49 * channels * w + 2 * w + sum(_block(*pair) for pair in pairwise(widths))
    return total, {site: (own, _block(own, own)) for site, own in enumerate((w, *widths[:8])) if site}


def _block(inputs: int, outputs: int) -> int:
    """Return the parameters of two convolutions with batch normalisation, and of one around if sizes
    differ."""
    around = (inputs + 2) * outputs if inputs != outputs else 0
    return (9 * inputs + 2) * outputs + (9 * outputs + 2) * outputs + around
