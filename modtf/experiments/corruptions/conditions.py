"""Base images, corruptions and the orders in which they are applied. It needs no TensorFlow."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import ceil, factorial

CORRUPTIONS = ("CO", "GB", "IM", "IN", "R90", "SW")
RULES = ("ID", *CORRUPTIONS)  # by number
LONGEST = len(CORRUPTIONS)
PER_SIZE = 30  # least number of orders for each number of corruptions
SEED = 2778  # as published
GROUPS = ("singles", "pairs", "triples", "quadruples", "quintuples", "sextuples")  # by number of corruptions

Order = tuple[str, ...]  # names, in the order in which they are applied


@dataclass(frozen=True)
class Dataset:
    """A set of base images."""

    title: str
    classes: int
    side: int  # pixels
    sizes: tuple[int, int, int | None]  # train, validation, test images of a class; None: predefined test set
    num_test: int
    rate: float  # the published learning rate; for digits, EMNIST's
    coloured: bool = False


DATASETS = {
    "digits": Dataset("digits", 10, 28, (400, 50, 50), 500, 0.01),
    "emnist": Dataset("EMNIST", 47, 28, (2_000, 400, None), 18_800, 0.01),
    "cifar10": Dataset("CIFAR-10", 10, 32, (4_000, 1_000, None), 10_000, 0.1, coloured=True),
}


def name_of(order: Order) -> str:
    """Return the name of a condition: "co_gb"; "id" if it is empty."""
    return "_".join(order).lower() or "id"


def orders() -> Iterator[Order]:
    """Return the paper's 167 orders, ID (the empty one) first. They are all orders of up to two corruptions,
    and some permutations of every larger combination, drawn once."""
    draws = random.Random(SEED)
    for size in range(LONGEST + 1):
        several = list(combinations(CORRUPTIONS, size))
        if size <= 2:
            yield from permutations(CORRUPTIONS, size)
            continue
        for chosen in several:
            number = min(ceil(PER_SIZE / len(several)), factorial(size))
            yield from draws.sample(list(permutations(chosen)), number)


def order_of(number: int) -> Order:
    """Return the corruptions of a number from `code`.

    Example:
        >>> order_of(15)
        ('CO', 'GB')
    """
    digits = [number // len(RULES) ** place % len(RULES) for place in range(LONGEST)]
    return tuple(RULES[digit] for digit in digits if digit)


def padded(order: Sequence[str]) -> list[int]:
    """Return the numbers of an order's rules, [6], padded with ID."""
    numbers = [RULES.index(name) for name in order]
    return numbers + [0] * (LONGEST - len(numbers))


def code(order: Sequence[str]) -> int:
    """Return an order as one number in base 7, with the first corruption last.

    The code of a single corruption is its rule.

    Example:
        >>> code(["GB"]), code(["CO", "GB"])
        (2, 15)
    """
    return sum(number * len(RULES) ** place for place, number in enumerate(padded(order)))
