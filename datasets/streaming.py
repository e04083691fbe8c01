"""Endless, reproducible streams of a task: `modtf.stream`."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modtf.checks import check_choice, check_integer
from modtf.datasets.families.base import Parameters, RuleData, check_shape, data_class
from modtf.datasets.random import check_rule_probs, choose_rule, uniforms
from modtf.memory import check_batches
from modtf.population import Population
from modtf.randomness import random_key
from modtf.task import SPLITS, Task

NUMBERS_PER_BLOCK = 1 << 16  # random numbers a member draws at once: enough to hide the cost of a call
FIELDS = ("rule", "inputs")  # each has a key of its own


def rule_data(population: Population) -> RuleData:
    """What makes and labels the tokens of a population."""
    return data_class(population.family)(population.tasks)


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
    family, data = population.family, rule_data(population)
    check_choice("split", split, SPLITS)
    batch_size = check_integer("batch_size", batch_size, 1)
    start_step = check_integer("start_step", start_step, 0)
    if not 0.0 < scale < np.inf:
        raise ValueError(f"scale={scale!r} is not valid; expected a finite number above 0.")
    if seq_len is not None and not family.is_sequence:
        raise ValueError(f"seq_len={seq_len} has no meaning for arch={family.name!r}; leave it out.")
    num_tokens = family.num_training_tokens if seq_len is None else seq_len
    num_tokens = check_integer("seq_len", num_tokens, family.min_tokens)
    check_batches(population, batch_size, num_tokens)
    thresholds = None
    if rule_probs is not None:
        thresholds = np.cumsum(check_rule_probs(rule_probs, data.num_rules), axis=1)[:, :-1]

    length = ["length", num_tokens] if num_tokens != family.training_length else []
    keys = [[random_key(*member, split, *length, field) for field in FIELDS] for member in population.members]
    width = data.num_uniforms(num_tokens)
    steps = max(1, min(64, NUMBERS_PER_BLOCK // (batch_size * width)))  # per block; never depends on P
    examples = steps * batch_size
    tokens = [examples, num_tokens] if family.is_sequence else [examples]
    target_width = population.task.target_width
    targets = tokens if target_width is None else [*tokens, target_width]
    dtype = tf.float32 if split == "train" else tf.float64

    def member_block(index: tf.Tensor, key: tf.Tensor, parameters: Parameters) -> Sequence[tf.Tensor]:
        """Batches index * steps ... of one member: tensors [G = steps * B, ...]."""
        limits = None
        if thresholds is not None:
            rows = tf.repeat((index * steps + tf.range(steps, dtype=tf.int64)) % len(thresholds), batch_size)
            limits = tf.gather(thresholds, rows)[:, None, :]
        rule = choose_rule(uniforms(key[0], index, [examples, num_tokens], dtype), data.num_rules, limits)
        inputs = data.inputs(uniforms(key[1], index, [examples, width], dtype), num_tokens)
        check_shape(f"{type(data).__name__}.inputs", inputs, [*tokens, population.task.token_width])
        if scale != 1.0:
            inputs *= tf.cast(scale, dtype)
        inputs = tf.cast(inputs, tf.float32)
        rule = tf.reshape(rule, tokens)
        outputs = data.outputs(parameters, tf.cast(inputs, dtype), rule)
        check_shape(f"{type(data).__name__}.outputs", outputs, targets)
        if population.task.setting == "classification":
            outputs = outputs >= 0
        return inputs, rule, tf.cast(outputs, tf.float32)

    def block(index: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """The blocks of all members: tensors [steps, B, (P,) ...], without the axis of one step."""
        members = tf.constant(keys, tf.int64), {k: tf.constant(v, dtype) for k, v in data.stacked.items()}
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
    # There is nothing to rewrite in it, and looking for it costs a third of starting an iterator
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
