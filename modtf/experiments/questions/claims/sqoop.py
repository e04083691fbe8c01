"""The claims of the study of SQOOP: gains in error on pairs never seen, in points, paired by data seed.

They are judged only where both networks answer at least 90% of the questions about pairs seen in training.
"""

from itertools import product

from modtf.analysis.claims.registry import Found, documented_claim
from modtf.analysis.trained import TrainedModels
from modtf.experiments.questions.gains import over
from modtf.experiments.questions.sets import PLAIN, SQOOP, TREES

SHOWN_BY = "sqoop_accuracy", "gain in points of error"


@documented_claim(*SHOWN_BY, variants=(*TREES, *PLAIN), families=[SQOOP])
def trees_beat_plain_networks(study: TrainedModels) -> Found:
    """on pairs never seen, module networks beat FiLM and MAC."""
    for tree, plain in product(TREES, PLAIN):
        yield from over(study, tree, plain)


@documented_claim(*SHOWN_BY, variants=TREES, families=[SQOOP])
def modules_per_symbol_beat_one(study: TrainedModels) -> Found:
    """on pairs never seen, an intermediate module per object and relation beats one for all."""
    yield from over(study, TREES[1], TREES[0])
