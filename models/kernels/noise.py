"""Random numbers as a function of a key and a counter, in integer arithmetic that every backend has.

Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror, Shaw 2011, "Parallel Random Numbers: As Easy as 1, 2, 3").
"""

from keras import ops

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
TOKENS = 24  # low bits of the counter, for the token; the row has the bits above
BITS = 23  # random bits of a number; with a half added, it fits a float32


def threefry(key, counter):
    """Return two words of random bits for two words of a counter.

    Args:
        key, counter: pairs of uint32 tensors; shapes that broadcast.
    """
    keys = [*key, ops.bitwise_xor(ops.bitwise_xor(key[0], key[1]), _word(PARITY))]
    x, y = counter[0] + keys[0], counter[1] + keys[1]
    for turn in range(5):
        for n in range(4):
            bits = ROTATIONS[4 * (turn % 2) + n]
            x = x + y
            left, right = ops.left_shift(y, _word(bits)), ops.right_shift(y, _word(32 - bits))
            y = ops.bitwise_xor(ops.bitwise_or(left, right), x)
        x = x + keys[(turn + 1) % 3]
        y = y + keys[(turn + 2) % 3] + _word(turn + 1)
    return x, y


def uniform_noise(key, step, num_rows: int, tokens):
    """Return numbers in (0, 1), float32 [P, num_rows, T], which depend on member, step, row and token only.

    Args:
        key: int32 [P, 2].
        step: int32 [P].
        num_rows: below 128.
        tokens: the tokens' numbers, int32 [T], below 2**24.
    """
    if len(ops.shape(tokens)) != 1:
        raise ValueError(f"tokens={tokens!r} is not valid; expected the tokens' numbers, see token_numbers.")
    key, step = ops.cast(key, "uint32"), ops.cast(step, "uint32")
    rows = ops.arange(num_rows, dtype="int32")[:, None] * (1 << TOKENS)
    place = ops.cast(rows + tokens, "uint32")[None]
    words = key[:, 0][:, None, None], key[:, 1][:, None, None]
    bits, _ = threefry(words, (ops.zeros_like(place) + step[:, None, None], place))
    numbers = ops.cast(ops.cast(ops.right_shift(bits, _word(32 - BITS)), "int32"), "float32")
    return (numbers + 0.5) * 2.0**-BITS


def _word(number: int):
    return ops.convert_to_tensor(number, "uint32")
