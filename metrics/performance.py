"""The performance measures. Evaluation computes them; tables and figures read their description here."""

import math

from modtf.metrics.registry import MEASURES, Measure

LOSS = Measure(
    name="loss",
    group="performance",
    range=(0.0, math.inf),
    perfect=0.0,
    smaller_is_better=True,
    description="Mean absolute error in regression, mean binary cross-entropy in classification.",
    axis_label="Loss",
)

ERROR = Measure(
    name="error",
    group="performance",
    range=(0.0, 100.0),
    perfect=0.0,
    smaller_is_better=True,
    description="Percentage of tokens classified wrongly.",
    axis_label="Error (%)",
)

for measure in (LOSS, ERROR):
    MEASURES.add(measure.name, measure, __name__)
