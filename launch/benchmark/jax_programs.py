"""What is timed with the JAX backend: the compiled step, its data made by a program, and the matrix peak.

TensorFlow is neither needed nor imported; so no stream of the host, no `fit` and no textbook stand beside it.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from modtf.datasets.device import DeviceStream, runs_on_device
from modtf.launch.benchmark.measure import BATCH_SIZE, PEAK_SIZE, Run, cpu_seconds
from modtf.models.base import ModularModel
from modtf.population import Population
from modtf.protocol import Protocol
from modtf.training.compile import compile_model

STEPS_PER_PROGRAM = 20
Batches = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def synthetic_batches(model: ModularModel, batch_size: int, steps: int, seed: int = 0) -> Batches:
    """Arrays of the shapes that the family's stream has, [steps, B, (P,) (N,) ...], rules uniform.

    For families whose data are written for the host alone. Their targets are random numbers: there is nothing
    to learn, and a step costs the same.

    Example:
        >>> model = modtf.build(modtf.Task(num_rules=4), width=8)
        >>> features, target = synthetic_batches(model, batch_size=16, steps=2)
        >>> features["inputs"].shape, features["rule"].shape, target["target"].shape
        ((2, 16, 2), (2, 16), (2, 16))
    """
    rng, population = np.random.default_rng(seed), model.population
    task = population.task
    tokens = [steps, batch_size]
    tokens += [len(population)] if population.has_axis else []
    tokens += [task.family.num_training_tokens] if task.is_sequence else []
    features = {
        "inputs": rng.standard_normal((*tokens, task.token_width), np.float32),
        "rule": rng.integers(task.num_rules, size=tokens, dtype=np.int32),
    }
    numbers = [task.target_width] if task.target_width else []
    target = rng.standard_normal((*tokens, *numbers), np.float32)
    return features, {"target": target if task.setting == "regression" else (target >= 0).astype(np.float32)}


def stream_batches(model: ModularModel, batch_size: int, steps: int) -> Batches:
    """The first batches of the family's stream, [steps, B, ...], made by a compiled program.

    Random numbers instead, where the family's data are written for the host alone.
    """
    if not runs_on_device(model.population.family):
        return synthetic_batches(model, batch_size, steps)
    features, target = jax.jit(DeviceStream(model.population, batch_size).make, static_argnums=1)(0, steps)
    return features, {"target": target}


def training_steps(model: ModularModel) -> Callable[[Any, Any], Any]:
    """A compiled function (state, batches [K, ...]) -> state that takes the model's training step K times.

    Args:
        model: compiled by `compile_model`.
    """

    def step(state: Any, batch: Any) -> tuple[Any, None]:
        _, state = model.train_step(state, batch)
        return state, None

    return jax.jit(lambda state, batches: jax.lax.scan(step, state, batches)[0], donate_argnums=0)


def state_of(model: ModularModel) -> Any:
    """What the training step of Keras's JAX trainer carries on; copies, as a compiled step consumes them."""
    model.optimizer.build(model.trainable_variables)
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    return tuple([jax.numpy.array(variable.value) for variable in group] for group in groups)


def step_run(model: ModularModel) -> Run:
    """The bare compiled loop over batches that stay in memory: the cost of the model alone."""
    compile_model(model, model.population, Protocol.published(model.population.task).training)
    batches = jax.device_put(stream_batches(model, BATCH_SIZE, STEPS_PER_PROGRAM))
    program, state = training_steps(model), state_of(model)

    def loop(times: int) -> None:
        nonlocal state
        for _ in range(times):
            state = program(state, batches)
        jax.block_until_ready(state)

    def run(steps: int) -> float:
        times = -(-steps // STEPS_PER_PROGRAM)
        return cpu_seconds(lambda: loop(times)) / (times * STEPS_PER_PROGRAM)

    return run


def data_run(population: Population) -> Run | None:
    """Making the training data by a compiled program, or None where the family's are written for the host."""
    if not runs_on_device(population.family):
        return None
    stream = DeviceStream(population, BATCH_SIZE)

    @jax.jit
    def loop(programs: Any) -> Any:
        def made(n: Any, total: Any) -> Any:
            features, target = stream.make(n * STEPS_PER_PROGRAM, STEPS_PER_PROGRAM)
            return total + sum(values.sum() for values in (*features.values(), target))

        return jax.lax.fori_loop(0, programs, made, 0.0)

    def run(steps: int) -> float:
        times = -(-steps // STEPS_PER_PROGRAM)
        return cpu_seconds(lambda: loop(times).block_until_ready()) / (times * STEPS_PER_PROGRAM)

    return run


def peak_runs() -> dict[str, Run]:
    """A large float32 matrix product."""
    left = np.random.default_rng(0).standard_normal([PEAK_SIZE, PEAK_SIZE], np.float32) / PEAK_SIZE**0.5

    @jax.jit
    def loop(steps: Any, left: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, right: left @ right, left)

    return {"peak": lambda steps: cpu_seconds(lambda: loop(steps, left).block_until_ready()) / steps}
