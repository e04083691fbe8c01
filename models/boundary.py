"""The conversion of users' [B, (P,) (N,) F] to the models' [P, F, N, B], and back."""

import sys

import keras
import numpy as np
from keras import ops

from modtf.base.plugins import line_in
from modtf.base.words import one_line
from modtf.tasks.observed import at_place
from modtf.tasks.population import Population
from modtf.xla.switches import is_traced


def check_rules(rule, num_rules: int) -> None:
    """Raise `ValueError` unless rules are 0..R-1: others have no one-hot vector, and p of an oracle is 0."""
    if isinstance(rule, keras.KerasTensor):  # a model is being built around this one
        return
    values = np.asarray(ops.convert_to_numpy(rule))
    if values.size and not 0 <= values.min() <= values.max() < num_rules:
        raise ValueError(
            f"features['rule'] lies between {values.min()} and {values.max()}; expected integers from 0 to "
            f"{num_rules - 1}, because the task has {num_rules} rules. If yours start at 1, subtract 1."
        )


def read(features, population: Population, dtype):
    """Return inputs [P, F, N, B] and one-hot rules [P, R, N, B] from the `features` of `modtf.stream`.

    F counts all numbers of a token, whatever its shape. An input to a whole example counts as one token.
    """
    task, family = population.task, population.family
    inputs, rule = ops.convert_to_tensor(features["inputs"]), ops.convert_to_tensor(features["rule"])
    if not population.has_axis:
        inputs, rule = inputs[:, None], rule[:, None]
    if not task.is_sequence:
        rule = rule[:, :, None]
    if not (task.is_sequence and family.inputs_by_token):
        inputs = inputs[:, :, None]
    if len(task.token_shape) != 1:
        inputs = ops.reshape(inputs, [-1, *inputs.shape[1:3], task.token_width])
    rules = ops.arange(task.num_rules, dtype=rule.dtype)[None, :, None, None]
    one_hot = ops.transpose(rule, [1, 2, 0])[:, None] == rules
    return ops.cast(ops.transpose(inputs, [1, 3, 2, 0]), dtype), ops.cast(one_hot, dtype)


def write(tensor, population: Population, shape, by_token: bool):
    """Return a tensor [P, F, T] as [B, (P,) (N,) F], given the shape [F, N, B]; with axis N if it is by
    token."""
    tensor = ops.transpose(ops.reshape(tensor, [len(population), *shape]), [3, 0, 2, 1])
    if not by_token:
        tensor = tensor[:, :, 0]
    return tensor if population.has_axis else tensor[:, 0]


def by_module(tensor):
    """Return [B, N, M] as [1, M, T]."""
    return ops.reshape(ops.transpose(tensor, [2, 1, 0]), [1, tensor.shape[2], -1])


def by_example(tensor, num_tokens: int):
    """Return [1, M, T] as [B, N, M]."""
    return ops.transpose(ops.reshape(tensor, [tensor.shape[1], num_tokens, -1]), [2, 1, 0])


def answer(model, features):
    """Return the outputs in the users' format, and p and scores [P, M, T] by routed layer."""
    if not model.has_members_axis:
        return _answer_of_one(model, features)
    task = model.population.task
    inputs, rule = read(features, model.population, model.compute_dtype)
    for router in model.routers.values():
        if router.needs_inputs:
            router.inputs = ops.reshape(inputs, [*inputs.shape[:2], -1])
    target, *routed = model.forward(inputs, rule)
    activation, scores = ({"": x} if not isinstance(x, dict) else x for x in (*routed, None)[:2])
    tokens, sequence = ops.shape(rule)[2:], task.is_sequence
    shape = [model.target_width or 1, *(tokens if task.family.target_by_token else [1, tokens[1]])]
    target = write(target, model.population, shape, sequence and task.family.target_by_token)
    outputs = {"target": target if model.target_width else target[..., 0]}
    for name, values in (("activation", activation), ("scores", scores)):
        for place in activation:
            if name == "activation" or model.priced(place, scores):
                shape = [model.routers[place].num_modules, *([-1, tokens[1]] if place else tokens)]
                value = write(values[place], model.population, shape, sequence or bool(place))
                outputs[at_place(name, place)] = value
    return outputs, activation, scores


def _explained(model, inputs, rule):
    """Return the outputs of `forward`, called with inputs [B, ...] and rules [B, N].

    N is 1 if examples are not sequences. If `forward` fails or returns the wrong shapes, it raises a one-line
    `ValueError` with the expected shapes."""
    came = f"inputs {tuple(inputs.shape)} {model.compute_dtype} and rule {tuple(rule.shape)} int32 [B, N]"
    made = f"{type(model).__name__}.forward, given {came},"
    try:
        outputs = dict(model.forward(inputs, rule))
    except Exception as error:
        file = getattr(sys.modules.get(type(model).__module__), "__file__", None)  # None in a notebook
        line = line_in(error, file or "")
        raise ValueError(f"{made} failed{line}: {type(error).__name__}: {one_line(error)}") from error
    if "target" not in outputs:
        raise ValueError(f"{made} returned {', '.join(map(str, outputs))}; expected a target among them.")
    for place in model.routers:
        name = at_place("activation", place)
        if name in outputs and len(shape := tuple(outputs[name].shape)) != 3:
            raise ValueError(f"{made} returned {name} {shape}; expected [B, N, M], as self.route returns.")
    return outputs


def _answer_of_one(model, features):
    inputs, rule = (ops.convert_to_tensor(features[name]) for name in ("inputs", "rule"))
    sequence = model.population.task.is_sequence
    inputs, rule = ops.cast(inputs, model.compute_dtype), rule if sequence else rule[:, None]
    outputs = dict(model.forward(inputs, rule)) if is_traced(rule) else _explained(model, inputs, rule)
    answer = {
        what: {
            place: by_module(outputs[at_place(what, place)])
            for place in model.routers
            if at_place(what, place) in outputs
        }
        for what in ("activation", "scores")
    }
    for what in answer if not sequence else ():  # an example is one token, without an axis
        if what in outputs:
            outputs[what] = outputs[what][:, 0]
    return outputs, answer["activation"], answer["scores"]
