"""Studies of docs/corruptions.md that go beyond `corruptions_quick`: 2 and 4 cells.

    modtf sweep --study=docs/studies/corruptions.py:corruptions_rates --out=studies/corruptions_rates
    modtf sweep --study=docs/studies/corruptions.py:corruptions_told --out=studies/corruptions_told

`corruptions_rates` asks whether erm gains from a higher rate, as contrastive and routed do: 10 models, ten
minutes. It needs its own folder, since a study compares each method at one rate.

`corruptions_told` trains the two other methods that receive the corruption, at the rate 0.1 and on the same
tasks: auto-encoders in image space with both classifiers, and the label as an input with both labels of a
composition. 20 models.
"""

from modtf.experiments.corruptions.studies import STEPS
from modtf.studies.grid import grid
from modtf.tasks.cell import Cell

SHARED = grid(arch="corruptions", dataset="digits", preset="quick", tasks=5, seeds=1, contrast=0.3)


def corruptions_rates() -> list[Cell]:
    """Return erm at two more learning rates."""
    faster = grid(**{"training.steps": STEPS, "training.learning_rate": [0.03, 0.1]})
    return (SHARED * grid(variant="erm") * faster).cells()


def corruptions_told() -> list[Cell]:
    """Return the auto-encoders with both classifiers, and the label as an input in both forms."""
    steps = grid(**{"training.steps": STEPS, "training.learning_rate": 0.1})
    methods = grid(variant="image_space", **{"trainer.classifier": ["identity", "joint"]})
    methods += grid(variant="labelled", **{"model.label": ["multi_hot", "mean"]})
    return (SHARED * steps * methods).cells()
