"""The options of `modtf.tasks.families.varied`, applied to data. At their defaults nothing is computed."""

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from modtf.base.checks import check_choice, check_number
from modtf.datasets.random import check_rule_probs, choose_rule, standard_normal
from modtf.metrics.distributions import entropy
from modtf.tasks.families.varied import WITHHELD, next_rule, zipf
from modtf.tasks.families.varied import option_of as option
from modtf.tasks.task import Task

HIDDEN = 8  # units of a rule's network
SAMPLES = 20_000


def parameters(task: Task) -> dict[str, np.ndarray]:
    """Draw the parameters that the options add: networks of rules, and the rules' mean inputs."""
    found, rules = {}, task.num_rules
    if option(task, "form") == "network":
        rng = np.random.RandomState([task.data_seed, 1])
        found["first"], found["offset"] = rng.randn(rules, HIDDEN, 2), rng.randn(rules, HIDDEN)
        found["second"] = rng.randn(rules, HIDDEN) / math.sqrt(HIDDEN)
    if shift := option(task, "shift"):
        found["centre"] = shift * np.random.RandomState([task.data_seed, 2]).randn(rules, task.token_width)
    return found


def answer(data: Any, parameters: Any, pairs: Any, rule: Any) -> Any:
    """Return a rule's answer to pairs of numbers (a, b) [..., 2], for rules c [...].

    linear: alpha_c a + beta_c b. network: sum of second_c tanh(first_c (a, b) + offset_c). operation: rule c
    applies operation c modulo 5 (sum, difference, product, minimum, maximum) to alpha_c a and beta_c b.
    """
    ops, form = data.ops, option(data.task, "form")
    if form == "network":
        first, offset, second = (ops.gather(parameters[name], rule) for name in ("first", "offset", "second"))
        hidden = ops.tanh(ops.sum(first * pairs[..., None, :], axis=-1) + offset)
        return ops.sum(second * hidden, axis=-1)
    weights = ops.stack([parameters["alpha"], parameters["beta"]], axis=-1)
    weighted = ops.gather(weights, rule) * pairs
    if form is None:
        return ops.sum(weighted, axis=-1)
    a, b = weighted[..., 0], weighted[..., 1]
    answers = ops.stack([a + b, a - b, a * b, ops.minimum(a, b), ops.maximum(a, b)], axis=-1)
    return ops.sum(answers * ops.one_hot(rule % 5, 5, dtype=answers.dtype), axis=-1)


@cache
def input_bits(task: Task) -> float:
    """Return the information in bits that a token's inputs carry about its rule, at most log2(R).

    The mean over `SAMPLES` tokens, drawn once, of the entropy of rules minus that of rules given the inputs.
    """
    if "centre" not in (given := parameters(task)):
        return 0.0
    rng, centre = np.random.RandomState(0), given["centre"]
    probs = np.array(task.family.rule_probs(task) or zipf(task.num_rules, 0.0))
    rule = rng.choice(task.num_rules, size=SAMPLES, p=probs)
    x = centre[rule] + rng.randn(SAMPLES, centre.shape[1])
    logits = x @ centre.T - (centre**2).sum(axis=1) / 2 + np.log(probs)
    posterior = np.exp(logits - logits.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    return float((entropy(probs) - entropy(posterior).mean()) / math.log(2))


def stored(data: Any, index: Any, uniforms: Any) -> Any:
    """Return the uniform numbers; of a finite training set, those that an example keeps in every epoch."""
    if data.split != "train" or not option(data.task, "num_train"):
        return uniforms
    tokens, width = uniforms.rule.shape[1], uniforms.inputs.shape[1]
    numbers = uniforms.at(index, tokens + width)
    return replace(uniforms, rule=numbers[:, :tokens], inputs=numbers[:, tokens:])


def check_options(task: Task, **options: Any) -> None:
    """Raise `ValueError` for a value of `zipf`, `pairs`, `support` or `noise` without a meaning for the
    task."""
    for name, known, needed in (("pairs", WITHHELD, WITHHELD), ("support", "outside", "shell")):
        if options[name] is not None:
            check_choice(name, options[name], (known,))
            if not option(task, needed):
                raise ValueError(f"{name}={known!r} needs a task with the option {needed}. Leave it out.")
    highest = 1e6 if task.setting == "regression" else 0.5
    for name, low, high in (("zipf", -4.0, 4.0), ("noise", 0.0, highest)):
        if options[name] is not None:
            check_number(name, options[name], low, high)


def rules(data: Any, uniforms: Any, exponent: float | None = None, pairs: str | None = None) -> Any:
    """Return rules int32 [G, N], drawn with the stream's frequencies, or else those of the task.

    Args:
        data: a `RuleData`.
        uniforms: its `Uniforms`. If they have frequencies, pairs of rules are independent.
        exponent: of Zipf's law; that of the task by default.
        pairs: "withheld" for sequences of nothing but withheld pairs.
    """
    ops, task, uniform, limits = data.ops, data.task, uniforms.rule, uniforms.limits
    exponent = option(task, "zipf") if exponent is None else exponent
    probs = zipf(data.num_rules, exponent or 0.0)
    own = task.family.rule_probs(task) if exponent is None else None  # of a family without this option
    if own is not None:
        probs = tuple(check_rule_probs(own, data.num_rules)[0])
    if limits is None and (exponent or own is not None):
        limits = np.cumsum(probs)[:-1]
    withheld = option(task, WITHHELD)
    if not withheld or uniforms.limits is not None:
        return choose_rule(ops, uniform, data.num_rules, limits)
    follows = np.cumsum(next_rule(probs, withheld, pairs == WITHHELD), axis=1)
    follows = np.where(follows > 1 - 1e-12, 1.0, follows)[:, :-1]  # no rule after the last one by rounding
    thresholds = ops.convert_to_tensor(follows.astype(uniforms.dtype))
    found = [choose_rule(ops, uniform[:, 0], data.num_rules, limits if limits is None else limits[None])]
    for n in range(1, uniform.shape[1]):
        found.append(choose_rule(ops, uniform[:, n], data.num_rules, ops.gather(thresholds, found[-1])))
    return ops.stack(found, axis=1)


def moved(data: Any, parameters: Any, inputs: Any, rule: Any, support: str | None = None) -> Any:
    """Return inputs [G, (N,) F] shifted to their rules' means, or inside the ball of the option `shell`, or
    outside it.

    A token at distance r on the wrong side of the radius moves along its direction: to radius^2 / r, or to
    2 radius - r.
    """
    size = option(data.task, "shell")
    if "centre" in parameters:
        return inputs + data.ops.gather(parameters["centre"], rule)
    if not size:
        return inputs
    from scipy.special import gammaincinv  # slow to import

    radius = size * math.sqrt(2.0 * gammaincinv(inputs.shape[-1] / 2, 0.5))  # times the median norm
    ops = data.ops
    norm = ops.maximum(ops.sqrt(ops.sum(inputs * inputs, axis=-1))[..., None], 1e-12)
    if support == "outside":
        return inputs * ops.where(norm < radius, 2.0 * radius / norm - 1.0, ops.ones_like(norm))
    return inputs * ops.where(norm > radius, (radius / norm) ** 2, ops.ones_like(norm))


def noisy(data: Any, index: Any, uniforms: Any, target: Any, strength: float | None = None) -> Any:
    """Return targets [G, ...] with the task's label noise, or of another `strength`.

    An example of a finite set keeps its noise, a function of (task, split, seed, index).
    """
    strength = option(data.task, "noise") if strength is None else strength
    if not strength:
        return target
    ops, shape = data.ops, list(target.shape[1:])
    count = math.prod(shape)
    numbers = uniforms.at(index, count + count % 2, field=1)
    if data.task.setting == "regression":
        noise = ops.reshape(standard_normal(ops, numbers)[:, :count], [-1, *shape])
        return target + strength * noise
    return ops.not_equal(target, ops.reshape(numbers[:, :count] < strength, [-1, *shape]))
