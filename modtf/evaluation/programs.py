"""How TensorFlow names, keeps and optimises the programs of a model: as modtf has them."""

import contextlib
from collections.abc import Iterator

import keras

from modtf.evaluation.retracing import no_retracing_advice
from modtf.evaluation.stable_names import stable_names
from modtf.evaluation.xla_only import xla_alone
from modtf.models.kernels.gradients import no_gradients_kept


@contextlib.contextmanager
def programs_of(model: keras.Model) -> Iterator[None]:
    """Stands around `fit` and `evaluate` of a compiled model.

    No advice on retracing, no gradients kept, optimised by XLA alone, and found again in its cache.
    """
    with no_retracing_advice(), no_gradients_kept(), xla_alone(model), stable_names(model):
        yield
