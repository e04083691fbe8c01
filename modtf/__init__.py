"""modtf: do the modules of a modular neural network specialise, and does it help?

Names are imported on first use, so that `import modtf` loads no TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import wrapt

if TYPE_CHECKING:
    from modtf.cell import Cell as Cell
    from modtf.cell import Evaluation as Evaluation
    from modtf.cell import Training as Training
    from modtf.datasets.streaming import stream as stream
    from modtf.evaluation.evaluator import evaluate as evaluate
    from modtf.training.loading import load_model as load_model
    from modtf.models.build import build as build
    from modtf.results import load_results as load_results
    from modtf.results import summarise as summarise
    from modtf.task import Task as Task
    from modtf.training.fit import train as train

__version__ = "0.1.0"

_LAZY = {
    "Task": "modtf.task",
    "Cell": "modtf.cell",
    "Training": "modtf.cell",
    "Evaluation": "modtf.cell",
    "stream": "modtf.datasets.streaming",
    "build": "modtf.models.build",
    "load_model": "modtf.training.loading",
    "train": "modtf.training",
    "evaluate": "modtf.evaluation",
    "load_results": "modtf.results",
    "summarise": "modtf.results",
}

__all__ = ["__version__", *_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'modtf' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


def _register_with_tfds(_: Any) -> None:
    """Makes `tfds.load("modarch_rules")` work."""
    import_module("modtf.datasets.registration").register()


# tensorflow_datasets has no entry points, and importing it takes longer than the rest of modtf.
wrapt.register_post_import_hook(_register_with_tfds, "tensorflow_datasets")
