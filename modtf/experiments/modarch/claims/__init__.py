"""The claims of the paper: sentences of its text, judged by the four variants that it compares."""

from functools import partial

from modtf.analysis.claims.registry import documented_claim
from modtf.tasks.cell import VARIANTS

LEARNED = ("modular", "modular_op")  # variants that can collapse or fail to specialise
MODULAR = (*LEARNED, "gt_modular")
#: columns that two variants of a pair share
KEY = ["arch", "setting", "task_options", "num_rules", "width", "data_seed", "seed"]
claim = partial(documented_claim, variants=VARIANTS)
