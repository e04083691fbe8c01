"""What evaluations read where data are made on the device: which batch, not the batch."""

from functools import lru_cache
from typing import Any

import tensorflow as tf
from keras import ops

from modtf import metrics
from modtf.datasets.device import DeviceStream
from modtf.evaluation.batches import KEPT, measured
from modtf.evaluation.source import Source
from modtf.population import Population


@lru_cache(KEPT)
def device_batches(
    population: Population, output: str, batch_size: int, split: str, draws: int | None = None, **options: Any
) -> Source:
    """As `evaluation_batches`, for programs that make their batches."""
    num_rules = population.task.num_rules
    if draws is not None:
        options["rule_probs"] = metrics.rule_distributions(num_rules, draws)
    stream = DeviceStream(population, batch_size, split, **options)

    def make(element: Any) -> Any:
        features, target = stream.make(element["step"], given=element["given"])
        features, target = {name: values[0] for name, values in features.items()}, target[0]
        return measured(features, target, element["step"], output, num_rules, draws, ops.cast)

    def element(step: tf.Tensor) -> dict[str, Any]:
        return {"step": tf.cast(step, tf.int32), "given": tf.nest.map_structure(tf.constant, stream.given)}

    program = (population, stream.plan.batch_size, stream.plan.num_tokens, draws)
    return Source(tf.data.Dataset.counter().map(element), make, program)
