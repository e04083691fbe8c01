"""The fifth row of every collapse and specialisation figure: modules picked at random."""

from collections.abc import Iterable

import pandas as pd

from modtf.analysis.labels import RANDOM
from modtf.metrics import measure_all, uniform_activation


def random_baseline(num_rules: Iterable[int]) -> pd.DataFrame:
    """The measures of uniform activation, which needs no training and has no seeds.

    Returns:
        num_rules, variant ("random"), measure, value.

    Example:
        >>> random_baseline([2]).set_index("measure").value["alignment"]
        np.float64(0.5)
    """
    rows = [
        (rules, RANDOM, name, value)
        for rules in sorted(set(num_rules))
        for name, value in measure_all(uniform_activation(rules)).items()
    ]
    return pd.DataFrame(rows, columns=["num_rules", "variant", "measure", "value"])
