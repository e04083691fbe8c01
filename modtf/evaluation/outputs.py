"""What a model must return: `{"target": [B, ...], "activation": [B, ..., M]}`."""

import keras

from modtf.datasets.streaming import stream
from modtf.models.base import ModularModel
from modtf.population import Population


def count_modules(model: keras.Model, population: Population) -> int:
    """The number of modules M of a model, which a user's model tells, and is built by, on two examples.

    Raises:
        ValueError: if the model is of another task, or does not return what it must.
    """
    if isinstance(model, ModularModel):
        if model.population.shape != population.shape:
            raise ValueError(
                f"The model was built for {model.population.describe()}, received {population.describe()}. "
                "Give the task, or the list of tasks, that it was built for."
            )
        return model.num_modules
    features, _ = next(iter(stream(population, 2, "validation")))
    outputs = model(features)
    if not isinstance(outputs, dict) or not {"target", "activation"} <= set(outputs):
        received = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(
            "A model must return a dict with the keys 'target' [B, ...] and 'activation' [B, ..., M], "
            f"received {received}. Wrap your model in one whose call returns both."
        )
    return int(outputs["activation"].shape[-1])
