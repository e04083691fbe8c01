"""The claims of the paper: sentences of its text, judged by the four variants that it compares."""

from collections.abc import Callable

from modtf.analysis.claims.registry import Find, register_claim
from modtf.cell import VARIANTS

LEARNED = ("modular", "modular_op")  # that could collapse or fail to specialise
MODULAR = (*LEARNED, "gt_modular")
#: what two variants of one model share
KEY = ["arch", "setting", "task_options", "num_rules", "width", "data_seed", "seed"]


def claim(figure: str, statistic: str) -> Callable[[Find], Find]:
    """`register_claim` under the function's name; its documentation is the claim."""

    def add(find: Find) -> Find:
        text = str(find.__doc__).rstrip(".")
        return register_claim(
            find.__name__, text=text, figure=figure, statistic=statistic, variants=VARIANTS
        )(find)

    return add
