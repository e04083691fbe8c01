"""The memory that cells, batches and populations need at least.

It counts only data that are certainly held at the same time. Requests that fit are therefore never rejected,
and requests that are slightly too large are not detected.
"""

import numpy as np

from modtf.base.memory import check_fits
from modtf.tasks.cell import Cell
from modtf.tasks.population import Population
from modtf.tasks.task import Task

FLOAT = 4  # bytes of a number
MEMBER = 200  # bytes of Python objects per member, whatever its model
HELD = 4  # numbers per parameter while training: value, two moments, the best so far


def cell_bytes(cell: Cell, parameters: int, copies: int = HELD) -> dict[str, int]:
    """Return the memory of a cell in bytes, by part.

    It has `copies` numbers for each parameter of a member (0 if unknown), and one batch at a time.
    """
    training, evaluation, family = cell.protocol.training, cell.protocol.evaluation, cell.task.family
    lengths = [family.condition(name).seq_len for name in evaluation.names(cell.task)]
    batches = [(evaluation.batch_size, length) for length in lengths]
    batches += [(training.batch_size, None), (evaluation.activation_batch_size, None)]
    members, layer = len(cell.members), cell.width if parameters else 0
    matrices = training.evaluations + (evaluation.draws if cell.task.is_sequence else 0)
    matrices *= FLOAT * members * cell.task.num_rules  # of one module, at least
    batch = max(batch_bytes(cell.task, members, *batch, layer) for batch in batches)
    parameters = members * (copies * FLOAT * parameters + MEMBER)
    return {"parameters": parameters, "the largest batch": batch, "activation matrices": matrices}


def batch_bytes(
    task: Task, members: int, batch_size: int, num_tokens: int | None = None, layer: int = 0
) -> int:
    """Return the bytes of one batch: a population's inputs, rules, targets, and a layer of `layer` units."""
    family, tokens = task.family, num_tokens or task.family.num_tokens(task)
    inputs = (
        np.dtype(family.input_dtype).itemsize * task.token_width * (tokens if family.inputs_by_token else 1)
    )
    targets = FLOAT * (task.target_width or 1) * (tokens if family.target_by_token else 1)
    return batch_size * (members * (inputs + targets + FLOAT * tokens) + FLOAT * tokens * layer)


def check_batches(population: Population, batch_size: int, num_tokens: int) -> None:
    """Raise `ValueError` if not even one batch of the population's data fits."""
    size = batch_bytes(population.task, len(population), batch_size, num_tokens)
    what = f"batch_size={batch_size} with {len(population)} members of {population.task.name}"
    what += f" and {num_tokens} tokens" if population.family.is_sequence else ""
    rules = 2 * FLOAT * len(population) * population.task.num_rules  # a rule has at least two numbers
    mend = "Choose smaller batches, shorter sequences, fewer rules or fewer members."
    check_fits(what, {"one batch": size, f"{population.task.num_rules:,} rules": rules}, mend)


def check_members(count: int, what: str) -> None:
    """Raise `ValueError` if not even the list of `count` members fits."""
    check_fits(what, {f"{count:,} members": MEMBER * count}, "Take fewer members.")
