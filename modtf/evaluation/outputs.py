"""What a model must return: `{"target": [B, ...], "activation": [B, ..., M]}`; activation may be left out."""

from typing import Any

import keras
import numpy as np

from modtf.datasets.streaming import stream
from modtf.models.base import ModularModel
from modtf.population import Population
from modtf.protocol import Evaluation

EXAMPLES = 2
TOLERANCE = 1e-3  # of a sum of activation: some models compute in half precision


def count_modules(model: keras.Model, population: Population) -> int | None:
    """The number of modules M of a model, which a user's model tells, and is built by, on two examples.

    Returns:
        M; None where the model says nothing of activation.

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
    return _check_outputs(model, population)


def check_conditions(model: keras.Model, population: Population, evaluation: Evaluation) -> None:
    """Raises `ValueError` where a user's model does not return what it must under a condition of evaluation,
    such as sequences of another length."""
    family = population.family
    for name in evaluation.names(family):
        try:
            _check_outputs(model, population, **family.condition(name).stream_options())
        except Exception as error:
            words = " ".join(str(error).split())[:300]
            raise ValueError(f"Under the condition {name!r} the model fails: {words}") from error


def _check_outputs(model: keras.Model, population: Population, **condition: Any) -> int | None:
    features, target = next(iter(stream(population, EXAMPLES, "validation", **condition)))
    outputs = model(features)
    if not isinstance(outputs, dict) or "target" not in outputs:
        received = sorted(outputs) if isinstance(outputs, dict) else type(outputs).__name__
        raise ValueError(
            "A model must return a dict with the keys 'target' [B, ...] and, if it has modules, 'activation' "
            f"[B, ..., M], received {received}. Wrap your model in one whose call returns both."
        )
    if outputs["target"].shape != target.shape:
        raise ValueError(
            f"The model's 'target' has the shape {tuple(outputs['target'].shape)} for inputs of shape "
            f"{tuple(features['inputs'].shape)}; expected {tuple(target.shape)}: one number per token, "
            "without an axis of its own."
        )
    _check_finite("target", outputs["target"])
    if "activation" not in outputs:
        return None
    activation, tokens = outputs["activation"], features["rule"].shape
    if len(activation.shape) != len(tokens) + 1 or activation.shape[:-1] != tokens:
        raise ValueError(
            f"The model's 'activation' has the shape {tuple(activation.shape)}; expected "
            f"{(*tuple(tokens), 'M')}: the weight of each of M modules for every token."
        )
    _check_finite("activation", activation)
    values = keras.ops.convert_to_numpy(activation).astype(np.float64)
    if values.min() < -TOLERANCE or np.abs(values.sum(axis=-1) - 1).max() > TOLERANCE:
        raise ValueError(
            f"The model's 'activation' lies between {values.min():.4g} and {values.max():.4g}, its sums over "
            f"modules between {values.sum(axis=-1).min():.4g} and {values.sum(axis=-1).max():.4g}; expected "
            "at least 0 and the sum 1: take a softmax, or divide by the sum."
        )
    return int(activation.shape[-1])


def _check_finite(name: str, output: Any) -> None:
    if not np.isfinite(keras.ops.convert_to_numpy(output)).all():
        raise ValueError(
            f"The model's {name!r} holds NaN or infinity before any training. Look at its initial weights, "
            "and for a logarithm or a division by 0."
        )
