"""The loop over tokens."""

import keras
from keras import ops


def scan(step, carry, sequence):
    """`step(carry, token) -> (carry, output)` over the first axis of `sequence`; stacked outputs."""
    length = keras.tree.flatten(sequence)[0].shape[0]
    outputs = []
    for n in range(length):
        carry, output = step(carry, keras.tree.map_structure(lambda x: x[n], sequence))  # noqa: B023
        outputs.append(output)
    return carry, keras.tree.map_structure(lambda *steps: ops.stack(steps), *outputs)
