"""Endless, reproducible streams of a task: `modtf.stream`."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from modtf.datasets.families import FAMILIES
from modtf.datasets.families.base import TaskFamily
from modtf.datasets.random import choose_rule, uniforms
from modtf.randomness import random_key
from modtf.task import SPLITS, TRAINING_LENGTH, Task, as_members, check_choice, check_integer

NUMBERS_PER_BLOCK = 1 << 16  # random numbers a member draws at once: enough to hide the cost of a call


def task_family(task: Task | Sequence[Task]) -> TaskFamily:
    """The rules of a task, or of the tasks of a population."""
    tasks = [task] if isinstance(task, Task) else list(task)
    return FAMILIES[tasks[0].arch](tasks)


def check_rule_probs(rule_probs: object, num_rules: int) -> np.ndarray:
    """Rule probabilities as float64 [K, R]; raises `ValueError` where they are none."""
    probs = np.atleast_2d(np.asarray(rule_probs, np.float64))
    if probs.ndim != 2 or probs.shape[1] != num_rules or probs.shape[0] == 0:
        raise ValueError(f"rule_probs needs the shape [{num_rules}] or [K, {num_rules}], received {probs.shape}.")
    if not np.all(probs >= 0) or not np.allclose(probs.sum(1), 1.0, atol=1e-6):
        raise ValueError("rule_probs needs non-negative numbers that sum to 1; divide them by their sum.")
    return probs / probs.sum(1, keepdims=True)


def stream(
    task: Task | Sequence[Task],
    batch_size: int = 256,
    split: str = "train",
    seed: int | Sequence[int] = 0,
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

    "validation" and "test" are computed in float64 and rounded once, so that they are the same bytes
    whatever the processor; "train" is computed in float32, which is faster.

    Args:
        task: a task, or the tasks of a population.
        batch_size: B.
        split: "train", "validation" or "test"; they share no random number.
        seed: of the member, or one per member.
        scale: multiplies the inputs before they are labelled; 2.0 is the published
            out-of-distribution setting.
        seq_len: N; 10 by default (mha and rnn alone have one).
        rule_probs: probabilities [R] of the rules, uniform by default; or [K, R]: batch `step`
            follows row `step % K`.
        start_step: the first batch, to resume where another stream stopped.

    Raises:
        ValueError: on a value out of range, before anything is computed.

    Example:
        >>> features, target = next(iter(modtf.stream(modtf.Task(num_rules=4), batch_size=8)))
        >>> features["inputs"].shape, features["rule"].shape, target.shape
        (TensorShape([8, 2]), TensorShape([8]), TensorShape([8]))
    """
    tasks, seeds, population = as_members(task, seed)
    family = task_family(tasks)
    check_choice("split", split, SPLITS)
    check_integer("batch_size", batch_size, 1)
    check_integer("start_step", start_step, 0)
    if seq_len is not None and not family.is_sequence:
        raise ValueError(f"seq_len={seq_len} has no meaning for arch={tasks[0].arch!r}; leave it out.")
    num_tokens = (TRAINING_LENGTH if seq_len is None else seq_len) if family.is_sequence else 1
    check_integer("seq_len", num_tokens, 2 if tasks[0].arch == "mha" else 1)
    thresholds = None
    if rule_probs is not None:
        thresholds = np.cumsum(check_rule_probs(rule_probs, family.num_rules), axis=1)[:, :-1]

    keys = [
        random_key(t, s, split, *(["length", num_tokens] if num_tokens != TRAINING_LENGTH else []))
        for t, s in zip(tasks, seeds, strict=True)
    ]
    width = family.num_uniforms(num_tokens) + num_tokens
    steps = max(1, min(64, NUMBERS_PER_BLOCK // (batch_size * width)))  # per block; never depends on P
    dtype = tf.float32 if split == "train" else tf.float64

    def block(index: tf.Tensor) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Batches index * steps ... of every member: tensors [steps, B, P, ...]."""
        drawn = uniforms(keys, index, [steps * batch_size, width], dtype)  # [G, P, width]
        limits = None
        if thresholds is not None:
            rows = tf.repeat((index * steps + tf.range(steps, dtype=tf.int64)) % len(thresholds), batch_size)
            limits = tf.gather(thresholds, rows)[:, None, None, :]
        rule = choose_rule(drawn[..., :num_tokens], family.num_rules, limits)
        raw = family.inputs(drawn[..., num_tokens:], num_tokens)
        inputs = tf.cast(raw * tf.cast(scale, dtype), tf.float32)
        rule = tf.ensure_shape(rule, [steps * batch_size, len(tasks), num_tokens])
        if not family.is_sequence:
            rule = rule[..., 0]
        outputs = family.outputs(tf.cast(inputs, dtype), rule)
        if tasks[0].setting == "classification":
            outputs = outputs >= 0
        target = tf.cast(outputs, tf.float32)
        trailing = [] if family.target_width is None else [family.target_width]

        def split_steps(tensor: tf.Tensor, *last: int) -> tf.Tensor:
            tokens = [num_tokens] if family.is_sequence else []
            members = [len(tasks)] if population else []
            return tf.reshape(tensor, [steps, batch_size, *members, *tokens, *last])

        features = {"inputs": split_steps(inputs, family.token_width), "rule": split_steps(rule)}
        return features, split_steps(target, *trailing)

    blocks = tf.data.Dataset.counter(start_step // steps)
    dataset = blocks.map(block, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).unbatch()
    return dataset.skip(start_step % steps).prefetch(tf.data.AUTOTUNE)
