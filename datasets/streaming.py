"""Endless, reproducible streams of a task: `modtf.stream`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from modtf.base.cache import Cache
from modtf.base.checks import check_integer
from modtf.datasets import host_ops
from modtf.datasets.families.base import Parameters
from modtf.datasets.plan import StreamPlan
from modtf.tasks.population import Population
from modtf.tasks.task import Task

LAST_STEP = 1 << 62  # the end of its block still fits an int64
#: shape of a plan -> the program that lone members share; one training and its evaluations need fewer
_shared_programs = Cache(16)


def stream(
    task: Task | Sequence[Task] | Population,
    batch_size: int = 256,
    split: str = "train",
    seed: int | Sequence[int] | None = None,
    *,
    scale: float = 1.0,
    seq_len: int | None = None,
    rule_probs: Sequence[float] | np.ndarray | None = None,
    condition: str | None = None,
    options: Mapping[str, Any] | None = None,
    start_step: int = 0,
) -> tf.data.Dataset:
    """Return an endless dataset of batches. Batch `step` is a pure function of (task, split, seed, step).

    Elements are `(features, target)` with `features = {"inputs": float32, "rule": int32}`:

    | arch | inputs | rule | target (float32) |
    |---|---|---|---|
    | mlp | [B, 2] | [B] | [B] |
    | mha | [B, N, 4R]; v2 [B, N, 6R] | [B, N] | [B, N] |
    | rnn | [B, N, 32] | [B, N] | [B, N]; for the state [B, N, 32] |

    For other families see `Task.example_shapes`, `input_dtype` and `target_dtype`. A population (lists of
    tasks and seeds) has its members axis after the batch axis: [B, P, ...]. Member i sees exactly the batches
    that `task[i]` with `seed[i]` alone would see.

    "train" is computed in float32. "validation" and "test" are computed in float64 and rounded once. If
    another processor's cosine, logarithm or matrix product differs in the last bit, the bytes then stay the
    same, except for about one number in 10^8. A step's tokens also depend on `batch_size`, `seq_len` and
    `rule_probs`. The CPU makes the numbers; `modtf.datasets.device.DeviceStream` makes them on the device
    that trains a model.

    Args:
        task: a task, a list of tasks of one shape, or a `Population`.
        batch_size: B.
        split: "train", "validation" or "test"; they share no random number.
        seed: the member's seed, or one per member; 0, or the population's own, by default.
        scale: multiplies the inputs before they are labelled, above 0; 2.0 is the published
            out-of-distribution setting.
        seq_len: N, for families of sequences; by default the length in training, 10 as published.
        rule_probs: probabilities [R] of the rules, uniform by default; or [K, R]: batch `step` follows row
            `step % K`.
        condition: the name of one of the family's conditions, in place of scale, seq_len and options.
        options: keyword arguments of the family's `RuleData.examples`.
        start_step: the first batch, to resume another stream.

    Raises:
        ValueError: if a value is out of range, or a batch cannot fit into memory, before anything is
            computed.

    Example:
        >>> features, target = next(iter(modtf.stream(modtf.Task(num_rules=4), batch_size=8)))
        >>> features["inputs"].shape, features["rule"].shape, target.shape
        (TensorShape([8, 2]), TensorShape([8]), TensorShape([8]))
    """
    population = Population.of(task, seed)
    plan = StreamPlan.of(
        population, host_ops, batch_size, split, scale=scale, seq_len=seq_len,
        rule_probs=rule_probs, condition=condition, options=options,
    )  # fmt: skip
    if check_integer("start_step", start_step, 0) > LAST_STEP:
        raise ValueError(f"start_step={start_step} is not valid; expected at most {LAST_STEP}.")
    return pipeline(plan)(int(start_step))


def pipeline(plan: StreamPlan) -> Callable[..., tf.data.Dataset]:
    """Return a function from a first step to the batches of a plan from there on; all calls share one trace.

    So do the plans of lone members of one shape, if their data allow it (`RuleData.members_share_programs`).
    The function also takes further options: tensors, which may belong to an enclosing pipeline.
    """
    population, batch_size, task = plan.population, plan.batch_size, plan.population.task
    steps, examples, thresholds = plan.steps, plan.steps * plan.batch_size, plan.thresholds
    # made here and not inside, so that no function has its own copy
    with tf.init_scope():
        bank = {name: tf.constant(value) for name, value in plan.data.bank().items()}

    def member_block(
        index: tf.Tensor, given: Mapping[str, Any], key: tf.Tensor, parameters: Parameters
    ) -> Sequence[tf.Tensor]:
        """Return the batches index * steps ... of one member: tensors [G = steps * B, ...]."""
        limits = None
        if thresholds is not None:
            rows = tf.repeat((index * steps + tf.range(steps, dtype=tf.int64)) % len(thresholds), batch_size)
            limits = tf.gather(thresholds, rows)[:, None, :]
        shapes = [examples, plan.num_tokens], [examples, plan.width]
        uniforms = [host_ops.uniforms(key[n], index, shapes[n], plan.dtype) for n in range(2)]
        position = index * examples + tf.range(examples, dtype=tf.int64)
        options = {**plan.options, **given}
        options = {k: tf.constant(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        words = tf.bitcast(key[2:], tf.uint32)
        return plan.make(position, (uniforms[0], uniforms[1]), limits, words, parameters, options)

    def block(
        index: tf.Tensor, given: Mapping[str, Any], lone: tuple[tf.Tensor, Parameters] | None
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Return the blocks of a lone member, or of all as constants: tensors [steps, B, (P,) ...], without
        the axis of one step."""
        if lone is not None:
            made = member_block(index, given, *lone)
        elif population.has_axis:
            # A loop: one member at a time stays in the processor's cache
            types = tuple(map(tf.as_dtype, (task.input_dtype, "int32", task.target_dtype)))
            made = tf.map_fn(
                lambda one: member_block(index, given, one[0], {**one[1], **bank}),
                _members(plan),
                fn_output_signature=types,
            )
            made = [tf.transpose(t, [1, 0, *range(2, t.shape.rank)]) for t in made]
        else:
            key, parameters = tf.nest.map_structure(lambda t: t[0], _members(plan))
            made = member_block(index, given, key, {**parameters, **bank})
        leading = [steps, batch_size] if steps > 1 else [batch_size]
        inputs, rule, target = (tf.reshape(t, [*leading, *t.shape[1:]]) for t in made)
        return {"inputs": inputs, "rule": rule}, target

    lone, traced = None, tf.function(block, autograph=False)
    if plan.data.members_share_programs and not population.has_axis:
        with tf.init_scope():
            key, parameters = tf.nest.map_structure(lambda t: t[0], _members(plan))
        lone, traced = (key, {**parameters, **bank}), _shared_programs.get_or_make(plan.shape, lambda: traced)

    # rewriting the graph finds nothing here, and costs a third of starting an iterator
    plain = tf.data.Options()
    plain.experimental_optimization.apply_default_optimizations = False

    def starting_at(step: Any, given: Mapping[str, tf.Tensor] | None = None) -> tf.data.Dataset:
        made = tf.data.Dataset.counter(step // steps).map(
            tf.autograph.experimental.do_not_convert(lambda index: traced(index, given or {}, lone)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
        if steps > 1:
            made = made.unbatch().skip(step % steps)
        return made.prefetch(tf.data.AUTOTUNE).with_options(plain)

    return starting_at


def _members(plan: StreamPlan) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
    """Return the keys and parameters of all members."""
    return tf.constant(plan.keys), {name: tf.constant(value) for name, value in plan.parameters().items()}
