"""Training as one writes it first: data by NumPy, a batch at a time through a Python generator, and Keras's
defaults."""

from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

from modtf.datasets.families.base import data_class
from modtf.datasets.families.mha import Search
from modtf.datasets.families.mlp import Affine
from modtf.datasets.families.rnn import LinearDynamics
from modtf.launch.benchmark.tensorflow_programs import fit_run
from modtf.launch.benchmark.textbook import MIXTURES, TEXTBOOK
from modtf.launch.benchmark.timing import BATCH_SIZE, Clock, Run
from modtf.models.architectures import ARCHITECTURES
from modtf.protocol import Protocol
from modtf.task import Task

Batch = tuple[dict[str, np.ndarray], np.ndarray]


def textbook_labels(task: Task, inputs: np.ndarray, rule: np.ndarray) -> np.ndarray:
    """y of inputs [B, (N,) F] and rules [B, (N,)]."""
    data = data_class(task.family)
    return LABELS[data](data.parameters(task), inputs, rule)


def textbook_batches(task: Task, batch_size: int, seed: int = 0) -> Iterator[Batch]:
    """Endless batches, as `modtf.stream` has them, of other random numbers."""
    rng = np.random.default_rng(seed)
    leading = [batch_size, task.family.training_length] if task.is_sequence else [batch_size]
    while True:
        inputs = rng.standard_normal([*leading, task.token_width])
        rule = rng.integers(task.num_rules, size=leading)
        target = textbook_labels(task, inputs, rule)
        features = {"inputs": inputs.astype(np.float32), "rule": rule.astype(np.int32)}
        yield features, target.astype(np.float32)


def textbook_dataset(task: Task, batch_size: int) -> tf.data.Dataset:
    """`textbook_batches` through `tf.data.Dataset.from_generator`."""
    first = next(textbook_batches(task, batch_size))
    signature = tf.nest.map_structure(lambda a: tf.TensorSpec(a.shape, a.dtype), first)
    return tf.data.Dataset.from_generator(
        lambda: textbook_batches(task, batch_size), output_signature=signature
    )


def _affine(parameters, inputs, rule):
    return parameters["alpha"][rule] * inputs[:, 0] + parameters["beta"][rule] * inputs[:, 1]


def _search(parameters, inputs, rule):
    """Every rule is searched, and the token's own one kept (v1: scalar keys)."""
    fields = inputs.reshape([*rule.shape, -1, 4])  # [B, N, R, (q, q', v, v')]
    itself = np.eye(rule.shape[1])[:, :, None]
    found = []
    for key, value in ((0, 2), (1, 3)):
        keys = fields[..., key]
        distance = np.abs(keys[:, :, None] - keys[:, None])
        nearest = np.argmin(np.where(itself, np.inf, distance), axis=2)  # [B, N, R]
        found.append(np.take_along_axis(fields[..., value], nearest, axis=1))
    labels = parameters["alpha"] * found[0] + parameters["beta"] * found[1]
    return np.take_along_axis(labels, rule[..., None], axis=2)[..., 0]


def _dynamics(parameters, inputs, rule):
    state, labels = np.zeros_like(inputs[:, 0]), []
    for n in range(rule.shape[1]):
        transition, drive = (parameters[name][rule[:, n]] for name in "AB")
        state = (state[:, None] @ transition + inputs[:, n, None] @ drive)[:, 0]
        labels.append(state @ parameters["w"][:, 0])
    return np.stack(labels, axis=1)


LABELS = {Affine: _affine, Search: _search, LinearDynamics: _dynamics}


def has_textbook(task: Task, variant: str) -> bool:
    """Whether the task's data, its architecture and the variant are written in textbook form."""
    architecture = ARCHITECTURES[task.family.architecture]
    return data_class(task.family) in LABELS and architecture in TEXTBOOK and variant in MIXTURES


def textbook_model(task: Task, variant: str, width: int) -> keras.Model:
    """The textbook form of `modtf.build(task, variant, width)`, built and compiled by Keras's defaults."""
    model = TEXTBOOK[ARCHITECTURES[task.family.architecture]](task, variant, width)
    features, _ = next(iter(textbook_dataset(task, batch_size=2)))
    model(features)  # creates its weights
    clipnorm = Protocol.published(task).training.clipnorm
    optimizer = keras.optimizers.Adam(1e-4, epsilon=1e-8, global_clipnorm=clipnorm)
    model.compile(optimizer=optimizer, loss="mean_absolute_error")
    return model


def textbook_run(task: Task, variant: str, width: int, clock: Clock) -> Run:
    """The textbook's `fit`: a Python generator, one step per execution."""
    return fit_run(textbook_model(task, variant, width), textbook_dataset(task, BATCH_SIZE), clock)
