"""What a cell needs in memory, without building it; no Keras is imported."""

from modtf.cell import Cell
from modtf.memory import FLOAT, MEMBER, batch_bytes, check_fits
from modtf.models.architectures.sizes import least_parameters
from modtf.models.own import MODELS
from modtf.protocol import Evaluation

HELD = 4  # numbers per parameter while training: value, two moments, the best so far


def cell_bytes(cell: Cell, parameters: int, held: int = HELD) -> dict[str, int]:
    """What in a cell needs memory -> bytes.

    Args:
        parameters: of one member; 0 where that is not known.
        held: numbers kept for each of them.
    """
    training, evaluation = cell.protocol.training, cell.protocol.evaluation
    members, num_rules = len(cell.members), cell.task.num_rules
    draws = evaluation.draws if cell.task.is_sequence else 0  # else their use of modules is computed
    matrices = members * num_rules * (training.evaluations + draws)  # of one module, at the least
    units = cell.width if parameters else 0  # of an inner layer, if anything is known of it
    return {
        "parameters": members * (held * FLOAT * parameters + MEMBER),
        f"training on batches of {training.batch_size}": _step(cell, training.batch_size, None, units),
        "evaluating": max(_step(cell, *data, units) for data in _evaluated(cell, evaluation)),
        "activation matrices": FLOAT * matrices,
    }


def check_cell(cell: Cell) -> None:
    """Raises `ValueError` where a cell cannot fit into the memory that there is."""
    architecture = cell.architecture or cell.task.family.architecture
    least = 0 if cell.runs in MODELS else least_parameters(architecture, cell.width)
    parts = cell_bytes(cell, least)
    one = ("evaluating", next(name for name in parts if name.startswith("training")))
    del parts[min(one, key=parts.__getitem__)]  # never both at once
    check_fits(
        f"{cell.label} with {len(cell.members)} members",
        parts,
        "Take smaller batches, a smaller width, fewer rules or fewer members.",
    )


def _step(cell: Cell, batch_size: int, num_tokens: int | None, units: int) -> int:
    """A batch of all members, and one inner layer of one member."""
    tokens = batch_size * (num_tokens or cell.task.family.num_training_tokens)
    return batch_bytes(cell.task, len(cell.members), batch_size, num_tokens) + FLOAT * tokens * units


def _evaluated(cell: Cell, evaluation: Evaluation) -> list[tuple[int, int | None]]:
    """(examples at once, their length) of all that is evaluated."""
    family = cell.task.family
    lengths = [family.condition(name).seq_len for name in evaluation.names(family)]
    return [
        *((evaluation.batch_size, length) for length in lengths),
        (evaluation.activation_batch_size, None),
    ]
