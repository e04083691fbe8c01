"""From what users speak, [B, (P,) (N,) F], to what models compute with, [P, F, N, B], and back."""

from keras import ops

from modtf.population import Population


def read(features, population: Population, dtype):
    """Inputs [P, F, N, B] and one-hot rules [P, R, N, B] from `features`, as `modtf.stream` gives them."""
    inputs, rule = ops.convert_to_tensor(features["inputs"]), ops.convert_to_tensor(features["rule"])
    if not population.has_axis:
        inputs, rule = inputs[:, None], rule[:, None]
    if not population.task.is_sequence:
        inputs, rule = inputs[:, :, None], rule[:, :, None]
    rules = ops.arange(population.task.num_rules, dtype=rule.dtype)[None, :, None, None]
    one_hot = ops.transpose(rule, [1, 2, 0])[:, None] == rules
    return ops.cast(ops.transpose(inputs, [1, 3, 2, 0]), dtype), ops.cast(one_hot, dtype)


def write(tensor, population: Population, shape):
    """A tensor [P, F, T] as [B, (P,) (N,) F].

    Args:
        shape: [F, N, B].
    """
    tensor = ops.transpose(ops.reshape(tensor, [len(population), *shape]), [3, 0, 2, 1])
    if not population.task.is_sequence:
        tensor = tensor[:, :, 0]
    return tensor if population.has_axis else tensor[:, 0]
