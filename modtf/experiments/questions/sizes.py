"""The parameters of the networks for questions about images in closed form, and FiLM's and MAC's sizes."""

from itertools import pairwise

from modtf.experiments.questions.family import question_of
from modtf.experiments.questions.library import CONVOLUTIONS, ROUTED_ENCODER, Library
from modtf.experiments.questions.question import CLASSIFIER, PLACES
from modtf.models.architectures.sizes import dense, register_size
from modtf.tasks.cell import Cell

#: FiLM at width 64: word vectors 200, the GRU's state 1,024, the projection 512, the hidden layer 1,024
FILM_WORD, STATE, PROJECTION, HIDDEN = 200 / 64, 16, 8, 16
#: MAC at width 64: word vectors 300, controls and memories 128; Vector-NMN has modules of the same width
MAC_WORD, MEMORY = 300 / 64, 2


@register_size("vqa", 9.9e-9, 6.0, in_turn=True)
def vqa(cell: Cell, modules: int, kind: str, library: str = ROUTED_ENCODER) -> int:
    """Return the parameters of `modtf.experiments.questions.networks.vqa`."""
    if "modules" in cell.router:
        raise KeyError("modules")  # of a routed layer
    known, router = Library.of(library, question_of(cell.task)), 0
    for place in PLACES:
        for bank in known.banks(place):
            rules, count = len(bank.module_of), bank.num_modules
            if bank.routed and kind == "learned":
                router += dense(rules, count)
            elif bank.routed and kind == "scores":
                router += count * dense((2 if place == CLASSIFIER else cell.width) + rules, 1)
    return known.num_parameters(cell.width) + router


@register_size("film", 3.8e-9, 11.0, in_turn=True)
def film(cell: Cell, modules: int, kind: str, blocks: int = 4) -> int:
    """Return the parameters of `modtf.experiments.questions.networks.film`."""
    e, words = cell.width, cell.task.num_rules
    word, state, last = max(1, int(FILM_WORD * e)), STATE * e, PROJECTION * e
    question = words * word + 3 * state * (word + state + 2) + dense(state, blocks * 2 * e)
    residual = blocks * (dense(e + 2, e) + dense(9 * e, e))
    image = _stem(_channels(cell), e, e) + residual + (e + 2) * last + 2 * last
    return question + image + _classifier(cell, last, HIDDEN * e)


@register_size("mac", 7.8e-9, 13.0, in_turn=True)  # on a core of an EPYC
def mac(cell: Cell, modules: int, kind: str, cells: int = 12) -> int:
    """Return the parameters of `modtf.experiments.questions.networks.mac`."""
    e, d, words = cell.width, MEMORY * cell.width, cell.task.num_rules
    word = max(1, int(MAC_WORD * e))
    question = words * word + 2 * 4 * dense(word + e, e)
    units = (cells + 4) * dense(d, d) + 2 * dense(d, 1) + 2 * dense(2 * d, d) + d
    return question + units + _stem(_channels(cell) + 2, e, d) + _classifier(cell, 2 * d, HIDDEN * e, False)


@register_size("vector_nmn", 8.0e-9, 12.0, in_turn=True)
def vector_nmn(cell: Cell, modules: int, kind: str, encoder: str = "all", blocks: int = 2) -> int:
    """Return the parameters of `modtf.experiments.questions.networks.vector_nmn`."""
    e, d = cell.width, MEMORY * cell.width
    stems = {"all": 1, "group": 2}[encoder] * _stem(_channels(cell), e, d)
    module = 2 * blocks * (dense(9 * d, d) + dense(3 * d, 3 * d) + dense(3 * d, 2 * d))
    return stems + cell.task.num_rules * d + module + _classifier(cell, d, HIDDEN * e)


def _channels(cell: Cell) -> int:
    return int(cell.task.example_shapes()["inputs"][2])


def _stem(channels: int, width: int, last: int) -> int:
    """Return the parameters of the image encoder."""
    widths = (channels, *[width] * (CONVOLUTIONS - 1), last)
    return sum((9 * a + 2) * b for a, b in pairwise(widths))


def _classifier(cell: Cell, inputs: int, hidden: int, bn: bool = True) -> int:
    answers = cell.task.output_width or 1
    return (inputs + 1 + bn) * hidden + dense(hidden, answers)
