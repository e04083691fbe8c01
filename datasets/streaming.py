"""Endless, reproducible streams of a task: `modtf.stream`."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modtf.datasets import host_ops
from modtf.datasets.families.base import Parameters
from modtf.datasets.plan import StreamPlan, check_start
from modtf.population import Population
from modtf.task import Task


def stream(
    task: Task | Sequence[Task] | Population,
    batch_size: int = 256,
    split: str = "train",
    seed: int | Sequence[int] | None = None,
    *,
    scale: float = 1.0,
    seq_len: int | None = None,
    rule_probs: Sequence[float] | np.ndarray | None = None,
    start_step: int = 0,
) -> tf.data.Dataset:
    """An endless dataset of batches; batch `step` is a pure function of (task, split, seed, step).

    Elements are `(features, target)` with `features = {"inputs": float32, "rule": int32}`:

    ==== ======================= ============ ====================================
    arch inputs                  rule         target (float32)
    ==== ======================= ============ ====================================
    mlp  [B, 2]                  [B]          [B]
    mha  [B, N, 4R] or 6R (v2)   [B, N]       [B, N]
    rnn  [B, N, 32]              [B, N]       [B, N], or [B, N, 32] for the state
    ==== ======================= ============ ====================================

    A population (lists of tasks and seeds) has its members axis after the batch axis: [B, P, ...].
    Member i sees exactly the batches that `task[i]` with `seed[i]` alone would see.

    "train" is computed in float32. "validation" and "test" are computed in float64 and rounded once: where
    another processor's cosine, logarithm or matrix product differs in the last bit, the bytes stay the same
    but for about one number in 10^8. A step's tokens depend on `batch_size`, `seq_len` and `rule_probs` too.
    The numbers are made on the CPU; `modtf.datasets.device.DeviceStream` makes them where a model is trained.

    Args:
        task: a task, a list of tasks of one shape, or a `Population`.
        batch_size: B.
        split: "train", "validation" or "test"; they share no random number.
        seed: of the member, or one per member; 0, or the population's own, by default.
        scale: multiplies the inputs before they are labelled, above 0; 2.0 is the published
            out-of-distribution setting.
        seq_len: N, for families of sequences; by default that of training, 10 as published.
        rule_probs: probabilities [R] of the rules, uniform by default; or [K, R]: batch `step`
            follows row `step % K`.
        start_step: the first batch, to resume where another stream stopped.

    Raises:
        ValueError: on a value out of range, or a batch that cannot fit into memory, before anything is
            computed.

    Example:
        >>> features, target = next(iter(modtf.stream(modtf.Task(num_rules=4), batch_size=8)))
        >>> features["inputs"].shape, features["rule"].shape, target.shape
        (TensorShape([8, 2]), TensorShape([8]), TensorShape([8]))
    """
    population = Population.of(task, seed)
    plan = StreamPlan.of(
        population, host_ops, batch_size, split, scale=scale, seq_len=seq_len, rule_probs=rule_probs
    )
    start_step, batch_size, scale = check_start(start_step), plan.batch_size, plan.scale
    steps, examples, thresholds = plan.steps, plan.steps * plan.batch_size, plan.thresholds

    def member_block(index: tf.Tensor, key: tf.Tensor, parameters: Parameters) -> Sequence[tf.Tensor]:
        """Batches index * steps ... of one member: tensors [G = steps * B, ...]."""
        limits = None
        if thresholds is not None:
            rows = tf.repeat((index * steps + tf.range(steps, dtype=tf.int64)) % len(thresholds), batch_size)
            limits = tf.gather(thresholds, rows)[:, None, :]
        shapes = [examples, plan.num_tokens], [examples, plan.width]
        uniforms = [host_ops.uniforms(key[n], index, shapes[n], plan.dtype) for n in range(2)]
        return plan.tokens((uniforms[0], uniforms[1]), limits, parameters, None if scale == 1.0 else scale)

    def block(index: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The blocks of all members: tensors [steps, B, (P,) ...], without the axis of one step."""
        parameters = {k: tf.constant(v, plan.dtype) for k, v in plan.data.stacked.items()}
        members = tf.constant(plan.keys), parameters
        if population.has_axis:
            # A loop, as members one by one stay in the processor's cache
            types = (tf.float32, tf.int32, tf.float32)
            made = tf.map_fn(lambda member: member_block(index, *member), members, fn_output_signature=types)
            made = [tf.transpose(t, [1, 0, *range(2, t.shape.rank)]) for t in made]
        else:
            made = member_block(index, *tf.nest.map_structure(lambda t: t[0], members))
        leading = [steps, batch_size] if steps > 1 else [batch_size]
        inputs, rule, target = (tf.reshape(t, [*leading, *t.shape[1:]]) for t in made)
        return {"inputs": inputs, "rule": rule}, target

    dataset = tf.data.Dataset.counter(start_step // steps).map(
        tf.autograph.experimental.do_not_convert(block),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    if steps > 1:
        dataset = dataset.unbatch().skip(start_step % steps)
    return dataset.prefetch(tf.data.AUTOTUNE)
