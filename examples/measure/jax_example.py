"""A softmax mixture of four experts, trained in JAX on four linear tasks, measured before and after."""

import jax
import jax.numpy as jnp
import numpy as np

import modtf
from modtf.routing import report_text

TASKS, EXPERTS, WIDTH, BATCH, STEPS = 4, 4, 8, 256, 600

truth = jax.random.normal(jax.random.key(0), (TASKS, WIDTH))
Parameters = dict[str, jax.Array]


def batch(key: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return inputs, the index of their task, targets."""
    first, second = jax.random.split(key)
    x, task = jax.random.normal(first, (BATCH, WIDTH)), jax.random.randint(second, (BATCH,), 0, TASKS)
    return x, task, (truth[task] * x).sum(-1)


def gates(parameters: Parameters, task: jax.Array) -> jax.Array:
    """Return the gates `[tokens, experts]`; the router sees only the task."""
    return jax.nn.softmax(parameters["router"][task])


def loss(parameters: Parameters, x: jax.Array, task: jax.Array, target: jax.Array) -> jax.Array:
    outputs = (gates(parameters, task) * (x @ parameters["experts"].T)).sum(-1)
    return ((outputs - target) ** 2).mean()


def step(parameters: Parameters, key: jax.Array) -> tuple[Parameters, None]:
    slope = jax.grad(loss)(parameters, *batch(key))
    return jax.tree.map(lambda value, change: value - 0.5 * change, parameters, slope), None


start = {
    "router": 0.1 * jax.random.normal(jax.random.key(1), (TASKS, EXPERTS)),
    "experts": 0.1 * jax.random.normal(jax.random.key(2), (EXPERTS, WIDTH)),
}
trained, _ = jax.jit(lambda keys: jax.lax.scan(step, start, keys))(jax.random.split(jax.random.key(3), STEPS))

x, task, target = batch(jax.random.key(4))
print(f"loss {loss(start, x, task, target):.3f} before training, {loss(trained, x, task, target):.4f} after")
layers = modtf.measure_activations(
    np.asarray(jnp.stack([gates(p, task) for p in (start, trained)])), np.asarray(task),
    documents=np.arange(BATCH),  # tokens are independent
)  # fmt: skip
for name, layer in zip(("before", "after"), layers, strict=True):
    alignment = layer.mass.values["alignment"].value
    print(f"\n{name} training, alignment {alignment:.3f}:\n{report_text([layer])}")
