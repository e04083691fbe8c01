"""modtf: do the modules of a modular neural network specialise, and does it help?

Names are imported on first use, so `import modtf` does not load TensorFlow.
"""

from importlib import import_module
from typing import Any

import wrapt
from etils import epy

from modtf.base.extras import tensorflow_named as _tensorflow_named
from modtf.base.process import quiet_tensorflow as _quiet_tensorflow
from modtf.base.version import __version__ as __version__

with epy.lazy_api_imports(globals()):
    from modtf.analysis.claims.registry import register_claim as register_claim
    from modtf.analysis.figures import register_figure as register_figure
    from modtf.analysis.intervals import summarise as summarise
    from modtf.analysis.study import Study as Study
    from modtf.base.plugins import load_plugin as load_plugin
    from modtf.datasets.streaming import stream as stream
    from modtf.engines.cell import run_cell as run_cell
    from modtf.evaluation.evaluator import evaluate as evaluate
    from modtf.evaluation.routing_file import write_routing as write_routing
    from modtf.metrics import register_measure as register_measure
    from modtf.models.architectures import register_architecture as register_architecture
    from modtf.models.build import build as build
    from modtf.models.convert import convert as convert
    from modtf.models.own import register_model as register_model
    from modtf.models.routers import register_router as register_router
    from modtf.results import load_results as load_results
    from modtf.routing import write_routing_report as write_routing_report
    from modtf.routing.analyses.registry import analyse_routing as analyse_routing
    from modtf.routing.analyses.registry import register_analysis as register_analysis
    from modtf.routing.analyses.similarity import expert_similarity as expert_similarity
    from modtf.routing.measuring import measure_activations as measure_activations
    from modtf.routing.recording.collect import collect as collect
    from modtf.routing.recording.record import record as record
    from modtf.routing.routing import read_routing as read_routing
    from modtf.tasks.cell import Cell as Cell
    from modtf.tasks.families import Condition as Condition
    from modtf.tasks.families import Family as Family
    from modtf.tasks.families import Option as Option
    from modtf.tasks.families import register_family as register_family
    from modtf.tasks.population import Population as Population
    from modtf.tasks.protocol import Evaluation as Evaluation
    from modtf.tasks.protocol import Protocol as Protocol
    from modtf.tasks.protocol import Training as Training
    from modtf.tasks.task import Task as Task
    from modtf.training.train import load_model as load_model
    from modtf.training.train import train as train
_imported = globals()["__getattr__"]


def _import(name: str) -> Any:
    """Import a name on first use. If it needs TensorFlow and that is missing, raise a one-line error."""
    with _tensorflow_named(f"modtf.{name}"):
        return _imported(name)


globals()["__getattr__"] = _import


def _register_with_tfds(_: Any) -> None:
    """Make `tfds.load("modarch_rules")` work."""
    import_module("modtf.datasets.registration").register()


_quiet_tensorflow()
# tensorflow_datasets has no entry points, and importing it takes longer than the rest of modtf.
wrapt.register_post_import_hook(_register_with_tfds, "tensorflow_datasets")
