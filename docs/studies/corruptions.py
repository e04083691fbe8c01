"""Studies of docs/corruptions.md that go beyond `corruptions_quick`: 2, 4 and 2 cells.

    modtf sweep --study=docs/studies/corruptions.py:corruptions_rates --out=studies/corruptions_rates
    modtf sweep --study=docs/studies/corruptions.py:corruptions_told --out=studies/corruptions_told

`corruptions_rates` asks whether erm gains from a higher rate, as contrastive and routed do: 10 models, ten
minutes. It needs its own folder, since a study compares each method at one rate.

`corruptions_told` trains the two other methods that receive the corruption, at the rate 0.1 and on the same
tasks: auto-encoders in image space with both classifiers, and the label as an input with both labels of a
composition. 20 models.

`corruptions_lowest` adds to the lowest severity (Figure 6), on the three tasks of `corruptions_quick` and with
its settings, contrastive at the rate at which it learns, and erm with as many steps as modular with its
search takes. 6 models, ten minutes.

    modtf sweep --study=docs/studies/corruptions.py:corruptions_lowest --out=studies/corruptions_quick
"""

from modtf.experiments.corruptions.studies import ALL_OF_MODULAR, STEPS
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


def corruptions_lowest() -> list[Cell]:
    """Return contrastive and the longer erm at the lowest severity."""
    shared = {"preset": "quick", "tasks": 3, "seeds": 1, "training.steps": STEPS}
    methods = grid(variant="contrastive", **{"training.learning_rate": 0.03, "trainer.strength": 0.01})
    methods += grid(variant="erm", **{"trainer.longer": round(ALL_OF_MODULAR / STEPS, 4)})
    return (grid(arch="corruptions", dataset="digits", severity="lowest", **shared) * methods).cells()
