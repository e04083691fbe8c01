"""The parameters of the language model in closed form."""

from modtf.experiments.languages.family import LAYERS
from modtf.models.architectures.sizes import dense, mixture, register_size
from modtf.tasks.cell import Cell


@register_size("languages", 1.0e-10, 11.0)
def languages(
    cell: Cell, modules: int, kind: str, hidden: int | None = None, total: bool = False, told: bool = False
) -> int:
    """Return the parameters of `modtf.experiments.languages.network`."""
    d, words, rules = cell.width, int(cell.task.vocabulary), cell.task.num_rules
    size = (hidden or d) * (rules if total else 1)
    experts = dense(d, modules * size) + mixture(modules, size, d, "rule")
    router = {"scores": d * modules, "learned": rules * modules}.get(kind, 0)
    block = 2 * d + dense(d, 4 * d, bias=False) + experts + router
    embedding = (words + cell.task.family.num_tokens(cell.task) + told * rules) * d
    return embedding + len(LAYERS) * block + d + dense(d, words)
