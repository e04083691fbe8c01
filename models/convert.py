"""Inclusion as code: a model of a more flexible variant that computes the same function as a given one."""

from typing import Any

import numpy as np
from keras import ops

from modtf.base.checks import check_choice, check_integer
from modtf.models.architectures import ARCHITECTURES
from modtf.models.architectures.embedding import EMBED, GAP, fits, logits_of, no_monolithic
from modtf.models.base import ModularModel
from modtf.models.build import build
from modtf.tasks.families.varied import option_of

WIDEST = 1 << 14
TARGETS = ("modular_op", "modular", "monolithic")


def convert(model: ModularModel, variant: str, width: int | None = None) -> ModularModel:
    """Return a model of another variant that computes the same function.

    This is the inclusion of the paper's appendix: every `gt_modular` function is a `modular_op` function, and
    so on to `modular` and `monolithic`. A one-hot p becomes a softmax of logits that differ by 40, so p
    changes by at most 4e-18 per module. The rest is rounding: outputs agree to about 1e-12 in float64, and to
    1e-6 of the largest output in float32.

    - `modular_op` has the width of the model.
    - `modular` is wider: R units of the encoder carry the rule, and one unit per module its score.
    - `monolithic` holds all modules side by side, and closes the units of those that a rule does not use. It
      needs one-hot p. In the rnn it needs cell="simple": an LSTM unit's memory follows one sequence of rules.

    Args:
        model: a `gt_modular` or `modular_op` model, or one of another router whose p depends on the rule
            alone, of mlp, mha or rnn.
        variant: "modular_op", "modular" or "monolithic".
        width: e of the new model; by default the smallest that is wide enough.

    Raises:
        ValueError: if there is no such model, or the width is too small. The error says which it needs.

    Example:
        >>> modular = modtf.convert(modtf.convert(model, "modular_op"), "modular")
    """
    check_choice("variant", variant, TARGETS)
    name = _check_model(model)
    p = _routing(model)  # [P, M, R]
    if variant == "modular_op":
        return _to_modular_op(model, p, width)
    if variant == "monolithic" and (reason := no_monolithic(name, model)):
        raise ValueError(
            f"convert builds no monolithic {name} of this cell, whatever the width: {reason}. Convert to "
            "modular, or take cell='simple'."
        )
    if variant == "monolithic" and not np.allclose(p.max(axis=1), 1.0, atol=1e-12):
        raise ValueError(
            "variant='monolithic' needs one-hot p, one module per rule: convert a gt_modular model."
        )
    widths = range(model.width + model.num_rules, WIDEST)
    least = next((e for e in widths if fits(name, model, variant, e)), 0)
    width = least if width is None else check_integer("width", width, 1)
    if not least or width < least:
        raise ValueError(f"width={width} is too small for this function as {variant}; it needs {least}.")
    made = _built(model, variant, width)
    EMBED[name](model, made, p)
    return made


def _check_model(model: Any) -> str:
    """Return the name of a model's architecture; raise `ValueError` if the model cannot be converted."""
    one = isinstance(model, ModularModel) and model.num_modules > 1 and model.router.depends_only_on_rule
    name = str(model.population.family.architecture) if one else ""
    if name not in EMBED or type(model) is not ARCHITECTURES[name]:
        raise ValueError(
            "convert needs a model of mlp, mha or rnn with several modules, whose p depends on the rule "
            f"alone, such as gt_modular; received {getattr(model, 'variant', model)!r}."
        )
    if option_of(model.population.task, "hidden"):
        raise ValueError("convert needs models that are told the rule, and this one's task has hidden=1.")
    return name


def _built(model: ModularModel, variant: str, width: int) -> ModularModel:
    modules = {} if variant == "monolithic" else {"modules": model.num_modules}
    made = build(
        model.population, variant, width, dtype=model.dtype_policy.name, router=modules, **model.options
    )
    made.trained_on = model.trained_on
    return made


def _routing(model: ModularModel) -> np.ndarray:
    """Return p(module | rule) as the model's router computes it, [P, M, R]."""
    rules, members = model.num_rules, model.num_members
    one_hot = np.tile(np.eye(rules), [members, 1, 1])
    rule = ops.convert_to_tensor(one_hot, model.variable_dtype)
    features = model.rule_encoder(rule) if hasattr(model, "rule_encoder") else rule
    return np.asarray(ops.convert_to_numpy(model.router.route(rule, features)), np.float64)


def _to_modular_op(model: ModularModel, p: np.ndarray, width: int | None) -> ModularModel:
    """Return the model with the same weights, and a router that is solved for its p."""
    if width not in (None, model.width):
        raise ValueError(f"width={width}: a modular_op model of this function has width={model.width}.")
    made, logits = _built(model, "modular_op", model.width), logits_of(p)
    for weight, own in zip(_beside_router(made), _beside_router(model), strict=True):
        weight.assign(own)
    layer, rules = made.router.logits, model.num_rules
    if hasattr(made, "rule_encoder"):  # one dense layer on learned features
        one_hot = ops.convert_to_tensor(np.tile(np.eye(rules), [len(p), 1, 1]), model.variable_dtype)
        features = np.asarray(ops.convert_to_numpy(made.rule_encoder(one_hot)), np.float64)
        features = np.concatenate([features, np.ones_like(features[:, :1])], axis=1)
        solved = logits @ np.linalg.pinv(features)
        if np.abs(solved @ features - logits).max() > 0.1:
            raise ValueError(
                f"The features of {rules} rules are not independent at width={model.width}; modular_op needs "
                f"width={rules - 1} or more, and rules that the model tells apart."
            )
        layer.kernel.assign(solved[:, :, :-1])
        layer.bias.assign(solved[:, :, -1:])
        return made
    _two_layers(layer, logits, rules)
    return made


def _beside_router(model: ModularModel) -> list[Any]:
    """Return the weights of a model without those of its router."""
    of_router = {id(weight) for weight in model.router.weights}
    return [weight for weight in model.weights if id(weight) not in of_router]


def _two_layers(layer: Any, logits: np.ndarray, rules: int) -> None:
    """Set the router's two layers on one-hot rules. With enough hidden units each rule has one; otherwise one
    unit counts the rules, and the logits of a one-hot p are parabolas of its value."""
    first, second = (np.zeros(part.kernel.shape) for part in (layer.first, layer.second))
    hidden = first.shape[1]
    if hidden >= rules:
        first[:, :rules] = np.eye(rules)
        second[:, :, :rules] = logits
    else:
        number, constant = np.arange(rules), min(1, hidden - 1)
        chosen = logits.argmax(axis=1)
        one_hot = np.sort(logits, axis=1)[:, :-1].max() == 0 and (chosen == number).all()
        if not one_hot or (hidden < 2 and layer.first.bias is None):
            raise ValueError(
                f"The router has {hidden} hidden units, too few for {rules} rules. Take a wider model."
            )
        first[:, 0] = number
        second[:, :, 0] = 2 * GAP * number[:, None].T
        if hidden > 1:
            first[:, constant] = 1.0
            second[:, :, constant] = -GAP * number**2
    for part, kernel in ((layer.first, first), (layer.second, second)):
        part.kernel.assign(kernel)
        if part.bias is not None:
            part.bias.assign(np.zeros(part.bias.shape))
    if hidden == 1 and hidden < rules:
        layer.second.bias.assign(np.tile(-GAP * np.arange(rules)[:, None] ** 2, [len(logits), 1, 1]))
