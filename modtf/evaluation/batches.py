"""What evaluations read. Building a pipeline costs more than a small evaluation, so it is built once."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tensorflow as tf

from modtf import metrics
from modtf.datasets.streaming import stream
from modtf.evaluation.source import Source
from modtf.population import Population

KEPT = 64  # pipelines of a process; cells of other variants and widths have the same


@lru_cache(KEPT)
def evaluation_batches(
    population: Population, output: str, batch_size: int, split: str, draws: int | None = None, **options: Any
) -> Source:
    """An endless source of (features, {output: what its metric needs}).

    For the output "target" that is the target, for "activation" rule + R * draw of every token.

    Args:
        population: whose seeds are those of the evaluation.
        output: of the model.
        batch_size: examples at once.
        split: "validation" or "test".
        draws: batches follow so many rule distributions in turn; by default all follow the uniform one.
        **options: of `modtf.stream`.
    """
    num_rules = population.task.num_rules
    if draws is not None:
        options["rule_probs"] = metrics.rule_distributions(num_rules, draws)

    def needed(step, batch):
        features, target = batch
        return measured(features, target, step, output, num_rules, draws, tf.cast)

    return Source(stream(population, batch_size, split, **options).enumerate().map(needed))


def measured(
    features: Any,
    target: Any,
    step: Any,
    output: str,
    num_rules: int,
    draws: int | None,
    cast: Callable[..., Any],
) -> tuple[Any, dict[str, Any]]:
    """(features, {output: what its metric needs}) of batch `step`, as `evaluation_batches` says.

    Args:
        features, target: of the stream.
        cast: to a dtype, in the pipeline's or the program's own operations.
    """
    if output == "target":
        return features, {output: target}
    rule = features["rule"]
    return features, {output: rule + num_rules * cast(step % (draws or 1), rule.dtype)}
