"""The uniform numbers of `tf.random.stateless_uniform(..., alg="philox")`, in any compiled program.

Philox 4x32-10 (Salmon et al., 2011) maps a counter and a key to four words of 32 bits, so any number of a
stream can be made separately. This code uses 32-bit integers only, which all backends have. `ops` is
`host_ops` in tf.data and `device_ops` in a compiled program.
"""

import numpy as np

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
#: TensorFlow's constants to scramble a seed into a key and a counter
SCRAMBLING_KEY = (0x3EC8F720, 0x02461E29)


def words(key: int) -> np.ndarray:
    """Return the two words of a signed 64-bit key, low first: uint32 [2]."""
    return np.array([key & 0xFFFFFFFF, (key >> 32) & 0xFFFFFFFF], np.uint32)


def uniforms(ops, seed, start, count: int, dtype: str = "float32"):
    """Return numbers start .. start + count - 1 of the flat tensors that TensorFlow makes of seeds, [...,
    count].

    Seeds are results of `scramble`, of any shape [...]. Starts are multiples of `count`, with a shape that
    broadcasts with it. Numbers in [0, 1) are "float32", from 23 bits each, or "float64", from 52.

    Example:
        >>> seed = scramble(host_ops, words(5), tf.constant([7]))
        >>> uniforms(host_ops, seed, tf.constant([0]), 4)
        >>> tf.random.stateless_uniform([4], [5, 7], alg="philox")  # the same
    """
    lanes = 4 if dtype == "float32" else 2  # numbers from one counter
    if count % lanes == 0:
        group = (start // lanes)[..., None] + ops.arange(count // lanes)
        numbers = ops.stack(_numbers(ops, _block(ops, seed, group), dtype), axis=-1)
        return ops.reshape(numbers, [*numbers.shape[:-2], count])
    place = start[..., None] + ops.arange(count)
    drawn = _numbers(ops, _block(ops, seed, place // lanes), dtype)
    chosen = drawn[0]
    for lane in range(1, lanes):
        chosen = ops.where(place % lanes == lane, drawn[lane], chosen)
    return chosen


def scramble(ops, key, index):
    """Return the key's two words and the counter's upper two, each [...], that TensorFlow makes of a seed.
    The seed consists of `words` [..., 2] and an index, whose shape broadcasts with [...]."""
    key, index = ops.convert_to_tensor(key, "uint32"), ops.cast(index, "uint32")
    zero = ops.zeros_like(key[..., 0] + index)
    counter = (zero + key[..., 0], zero + key[..., 1], zero + index, zero)
    return philox(ops, counter, [np.uint32(k) for k in SCRAMBLING_KEY])


def uniforms_at(ops, key, index, count: int, dtype: str = "float32", field: int = 0):
    """Return numbers in [0, 1) of examples: [G, count], functions of (key uint32 [2], index [G], field)."""
    lanes = 4 if dtype == "float32" else 2  # numbers from one counter
    index = ops.cast(index, "uint32")[:, None]
    group = ops.cast(ops.arange(-(-count // lanes)), "uint32")
    zero = ops.zeros_like(index + group)
    block = philox(ops, (zero + group, zero + index, zero + np.uint32(field), zero), [key[0], key[1]])
    numbers = ops.stack(_numbers(ops, block, dtype), axis=-1)
    return ops.reshape(numbers, [-1, lanes * zero.shape[1]])[:, :count]


def _block(ops, seed, group):
    """Return the four words of each group of a seed."""
    group, seed = ops.cast(group, "uint32"), [word[..., None] for word in seed]
    zero = ops.zeros_like(group + seed[0])
    return philox(ops, (group, zero, zero + seed[2], zero + seed[3]), seed[:2])


def philox(ops, counter, key):
    """Map four words of a counter and two of a key to four random words; uint32, shapes that broadcast."""
    key = [ops.convert_to_tensor(word) for word in key]
    for n in range(ROUNDS):
        if n:
            key = [word + np.uint32(step) for word, step in zip(key, KEY_STEPS, strict=True)]
        high = [ops.upper_word(word, by) for word, by in zip(counter[::2], MULTIPLIERS, strict=True)]
        low = [word * np.uint32(by) for word, by in zip(counter[::2], MULTIPLIERS, strict=True)]
        counter = (high[1] ^ counter[1] ^ key[0], low[1], high[0] ^ counter[3] ^ key[1], low[0])
    return counter


def _numbers(ops, block, dtype: str):
    """Return uniform numbers from four words: four from the lower 23 bits each, or two from 52."""
    if dtype == "float32":
        return [ops.cast(word & np.uint32(0x7FFFFF), dtype) * 2.0**-23 for word in block]
    upper = [ops.cast(word & np.uint32(0xFFFFF), dtype) for word in block[::2]]
    lower = [ops.cast(word, dtype) for word in block[1::2]]
    return [(high * 2.0**32 + low) * 2.0**-52 for high, low in zip(upper, lower, strict=True)]
