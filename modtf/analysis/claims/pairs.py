"""What the claims about performance are made of."""

import pandas as pd

from modtf.analysis.paired import match_members
from modtf.analysis.performance import IN
from modtf.analysis.study import Study

NEGLIGIBLE = 0.1  # of the loss or error: less is no difference that a reader would act on
RELATIVE = "relative reduction of the loss or error"


def advantage(study: Study, first: str, second: str, distribution: str = IN) -> pd.DataFrame:
    """`match_members` in one headline condition: `advantage` is by which share the first's loss is lower."""
    rows = study.performance
    return match_members(rows[rows["distribution"] == distribution], first, second)
