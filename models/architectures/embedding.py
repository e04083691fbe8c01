"""Weights of a modular network inside a wider one that computes the same function; `convert` uses them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from keras import ops

from modtf.models.architectures.sizes import mha_head, mha_hidden, mlp_hidden, rnn_state
from modtf.models.recurrence import CELLS

GAP = 40.0  # between the logit of the chosen module and the others: their p is exp(-40), 4e-18
CLOSED = 1e6  # subtracted from the units of modules that a rule does not use: above all their inputs


def logits_of(p: np.ndarray) -> np.ndarray:
    """Return logits of p along axis 1, from 0 to `GAP`."""
    logits = np.log(np.maximum(p, np.exp(-GAP) * p.max(axis=1, keepdims=True)))
    return logits - logits.min(axis=(1, 2), keepdims=True)


def fits(name: str, model: Any, variant: str, width: int) -> bool:
    """Return whether a model of this width has the units that the function needs."""
    e, rules, modules = model.width, model.num_rules, model.num_modules
    alone = variant == "monolithic"
    try:
        if name == "mlp":
            units = mlp_hidden(e, modules)
            return 4 * width >= modules * units + rules if alone else mlp_hidden(width, modules) > units
        if name == "mha":
            k, units, heads = model.head_width, model.module_hidden, model.num_heads
            head, hidden = mha_head(width, heads), mha_hidden(width, rules, 1 if alone else modules)
            return (
                head >= modules * k + rules and hidden >= modules * units + rules
                if alone
                else head > k and hidden > units
            )
        gates, h = model.shared_state.cell.num_gates, model.state_width
        return 4 * width > modules * h if alone else rnn_state(width, modules, gates) > h
    except ValueError:  # not one unit
        return False


class Copy:
    """Copies weights into a wider model of zeros, and adds the units that carry the rule."""

    def __init__(self, old: Any, new: Any):
        self.old, self.new, self.e, self.wide = old, new, old.width, new.width
        self.made: dict[Any, np.ndarray] = {}
        for weight in new.trainable_weights:
            self.made[id(weight)] = np.zeros(weight.shape)

    def of(self, weight: Any) -> np.ndarray:
        """Return the new array of a weight, to be changed in place."""
        return self.made[id(weight)]

    def put(self, new: Any, old: Any, *places: Any, factor: float = 1.0) -> None:
        """Copy a weight [P, ...] to the places of its axes; an axis without places keeps its order."""
        values = np.asarray(ops.convert_to_numpy(old), np.float64) * factor
        chosen = [
            np.arange(n) if at is None else np.asarray(at)
            for n, at in zip(values.shape[1:], places, strict=True)
        ]
        self.of(new)[np.ix_(np.arange(len(values)), *chosen)] = values

    def dense(self, name: str, outputs: Any = None, inputs: Any = None, factor: float = 1.0) -> None:
        """Copy a dense layer, given by its attribute's name, to places of its outputs and inputs."""
        old, new = self.old, self.new
        for part in name.split("."):
            old, new = getattr(old, part), getattr(new, part)
        self.put(new.kernel, old.kernel, outputs, inputs, factor=factor)
        if old.bias is not None:
            self.put(new.bias, old.bias, outputs, None, factor=factor)

    def carry_rule(self, encoder: Any, first: int) -> None:
        """Let R more units of a two-layer encoder, whose rule begins at input `first`, carry the one-hot."""
        for r in range(self.old.num_rules):
            self.of(encoder.first.kernel)[:, self.e + r, first + r] = 1.0
            self.of(encoder.second.kernel)[:, self.e + r, self.e + r] = 1.0

    def finish(self) -> None:
        for weight in self.new.trainable_weights:
            weight.assign(self.made[id(weight)])


def _blocks(count: int, width: int, wide: int) -> np.ndarray:
    """Return the places of `count` blocks of `width` numbers that are now `wide` apart."""
    return (wide * np.arange(count)[:, None] + np.arange(width)).ravel()


def _closed(p: np.ndarray, module: int) -> np.ndarray:
    """Return the weights [P, 1, R] with which one-hot rules close the units of a module, or leave them."""
    return -CLOSED * (p[:, module, None] < 0.5)


def _mlp(old: Any, new: Any, p: np.ndarray) -> None:
    copy, e, wide, modules = Copy(old, new), old.width, new.width, old.num_modules
    units, alone = mlp_hidden(e, modules), new.num_modules == 1
    for encoder in ("digit_encoder", "rule_encoder"):
        copy.dense(f"{encoder}.first")
        copy.dense(f"{encoder}.second")
    copy.carry_rule(new.rule_encoder, 0)
    places = _blocks(modules, units, units if alone else mlp_hidden(wide, modules))
    copy.dense("first", places, _blocks(3, e, wide))
    rule = slice(2 * wide + e, 2 * wide + e + old.num_rules)
    _mix(copy, copy.of(new.first.kernel)[:, :, rule], places, p)
    copy.dense("decoder.first")
    copy.dense("decoder.second")
    copy.finish()


def _mix(copy: Copy, of_rule: np.ndarray, places: np.ndarray, p: np.ndarray) -> None:
    """Set the last layer of modules, and the weights `of_rule` [P, units, R] with which one-hot rules reach
    their units.

    A monolithic model closes the units of other modules, and one more unit per rule adds the bias of its
    module. Otherwise one more unit per module is its score.
    """
    old, new, modules = copy.old.mixture, copy.new.mixture, copy.old.num_modules
    copy.put(new.kernel, old.kernel, None, places)
    if new.num_modules == 1:
        for module, chosen in enumerate(np.split(places, modules)):
            of_rule[:, chosen] = _closed(p, module)
        rules, bias = p.shape[2], np.asarray(ops.convert_to_numpy(old.bias), np.float64)
        of_rule[:, len(places) : len(places) + rules] = np.eye(rules)
        copy.of(new.kernel)[:, : old.kernel.shape[1], len(places) : len(places) + rules] = bias @ p
        return
    copy.put(new.bias, old.bias, None, None)
    for module in range(modules):
        of_rule[:, module * new.hidden + old.hidden] = logits_of(p)[:, module]
    copy.of(new.score_kernel)[:, :, old.hidden] = 1.0


def _mha(old: Any, new: Any, p: np.ndarray) -> None:
    copy, e, modules, rules = Copy(old, new), old.width, old.num_modules, old.num_rules
    k, wide, units, heads = old.head_width, new.head_width, old.module_hidden, old.num_heads
    alone = new.num_modules == 1
    tokens = np.arange(old.token_width + rules)
    copy.dense("encoder.first", None, tokens)
    copy.dense("encoder.second")
    copy.carry_rule(new.encoder, old.token_width)
    copy.dense("queries", _blocks(heads, k, wide), factor=(wide / k) ** 0.5)  # undoes the attention's scale
    copy.dense("keys", _blocks(heads, k, wide))
    copy.dense("values", _blocks(heads, k, wide))
    copy.dense("bypass", _blocks(modules, k, k if alone else wide))
    bypass = copy.of(new.bypass.kernel)
    first, bias = copy.of(new.first.kernel), copy.of(new.first.bias)  # [P, groups, units, inputs]
    kernels, biases = (
        np.asarray(ops.convert_to_numpy(w), np.float64) for w in (old.first.kernel, old.first.bias)
    )
    if alone:
        for r in range(rules):
            bypass[:, modules * k + r, e + r] = 1.0
        for m in range(modules):
            at = slice(m * units, (m + 1) * units)
            inputs = [*(2 * m * wide + _blocks(2, k, wide)), *(heads * wide + m * k + np.arange(k))]
            first[:, 0, at, inputs] = kernels[:, m].transpose(2, 0, 1)
            bias[:, 0, at] = biases[:, m]
        rule = slice(heads * wide + modules * k, heads * wide + modules * k + rules)
        _mix(copy, first[:, 0, :, rule], np.arange(modules * units), p)
    else:
        copy.put(new.first.kernel, old.first.kernel, None, None, _blocks(3, k, wide))
        copy.put(new.first.bias, old.first.bias, None, None, None)
        first[:, :, units, 2 * wide + k] = 1.0
        scores = np.zeros([len(p), modules * new.module_hidden, rules])
        _mix(copy, scores, _blocks(modules, units, new.module_hidden), p)
        bypass[:, np.arange(modules) * wide + k, e : e + rules] = scores[
            :, np.arange(modules) * new.module_hidden + units
        ]
    copy.dense("decoder.first")
    copy.dense("decoder.second")
    copy.finish()


def _rnn(old: Any, new: Any, p: np.ndarray) -> None:
    copy, e, modules, rules = Copy(old, new), old.width, old.num_modules, old.num_rules
    h, wide, gates = old.state_width, new.state_width, old.shared_state.cell.num_gates
    copy.dense("encoder.first")
    copy.dense("encoder.second")
    copy.carry_rule(new.encoder, old.token_width)
    if new.num_modules == 1:
        _side_by_side(copy, p)
    else:
        places = _blocks(modules * gates, h, wide)
        copy.dense("from_input", places)
        copy.dense("shared_state.from_state", places)
        scores = np.arange(modules) * gates * wide + h  # the first gate of one more unit
        copy.of(new.from_input.kernel)[:, scores, e : e + rules] = logits_of(p)
        copy.of(new.shared_state.score.kernel)[:, 0, :, h] = 1.0
        copy.dense("decoder.first")
    copy.dense("decoder.second")
    copy.finish()


def _side_by_side(copy: Copy, p: np.ndarray) -> None:
    """Set one simple cell whose state holds the states of all modules, and its decoder.

    The units of modules that a rule does not use are closed, at -1. So the modular state is the sum of all
    states plus M - 1 times one more unit, which is 0 before the first token and 1 after it.
    """
    old, new, e, rules, modules = copy.old, copy.new, copy.e, p.shape[2], copy.old.num_modules
    h = old.state_width
    units, one = np.arange(modules * h), modules * h
    copy.dense("from_input", units)
    for module, chosen in enumerate(np.split(units, modules)):
        copy.of(new.from_input.kernel)[:, chosen, e : e + rules] = _closed(p, module)
    copy.of(new.from_input.bias)[:, one] = CLOSED
    layers = (
        (old.shared_state.from_state, new.shared_state.from_state),
        (old.decoder.first, new.decoder.first),
    )
    for (layer, wider), outputs in zip(layers, (units, None), strict=True):
        for module in range(modules):
            copy.put(wider.kernel, layer.kernel, outputs, module * h + np.arange(h))
        total = np.asarray(ops.convert_to_numpy(layer.kernel), np.float64).sum(axis=2)
        copy.of(wider.kernel)[:, : total.shape[1], one] = (modules - 1) * total
    copy.put(new.decoder.first.bias, old.decoder.first.bias, np.arange(h), None)


EMBED: Mapping[str, Callable[[Any, Any, np.ndarray], None]] = {"mlp": _mlp, "mha": _mha, "rnn": _rnn}


def no_monolithic(name: str, model: Any) -> str:
    """Return why no monolithic model computes what a modular one does; "" if one does."""
    if name != "rnn" or model.shared_state.cell is CELLS["simple"]:
        return ""
    return (
        "a unit has one matrix for its gates, while a modular cell has one per rule, so a unit's memory is "
        "right for one sequence of rules only"
    )
