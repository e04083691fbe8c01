"""Intervals over documents, and routers that know nothing: the helpers of all analyses."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.metrics.distributions import Array
from modtf.routing.analyses.choices import Choices
from modtf.routing.measuring.estimates import interval_from_groups, mean_and_range
from modtf.routing.measuring.layers import Ints, Shares
from modtf.routing.measuring.table import KEPT, MOST_UNITS, Units
from modtf.routing.measuring.tokens import Tokens

EXACT = 2**11  # tokens up to which the balanced router is simulated token by token
MIXING, BETWEEN = 16, 4  # swaps per choice before the first draw, and between draws
Values = Mapping[Any, float]  # measure, or (measure, item) -> value
Ratios = Mapping[str, tuple[NDArray[Any], NDArray[Any]]]  # measure -> numerators, denominators


def rows_of(
    layer: int,
    value: Values,
    without: Sequence[Values] = (),
    sizes: Sequence[float] = (),
    chance: Sequence[Values] = (),
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-np.inf, np.inf),
    most: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:
    """Return a row of `Analysed.table` for each measure of a layer.

    Args:
        layer: the layer's number in the file.
        value: measure, or (measure, item) -> the value of all rows.
        without: the same without each group of documents, for the interval.
        sizes: the number of rows in each of these groups.
        chance: the same for each router that knows nothing.
        confidence: of the interval.
        bounds: the smallest and the largest possible value, at which intervals and bands end.
        most: the largest possible value of measures that have another one than `bounds`.
    """
    if not (keys := list(value)):
        return []
    whole = np.array([value[key] for key in keys], float)
    left_out = np.array([[one[key] for key in keys] for one in without]).reshape(-1, len(keys))
    _, half = interval_from_groups(whole, left_out, np.asarray(sizes, float), confidence)
    drawn = np.array([[one[key] for key in keys] for one in chance]).reshape(-1, len(keys))
    pairs = [key if isinstance(key, tuple) else (key, "") for key in keys]
    upper = np.array([(most or {}).get(measure, bounds[1]) for measure, _ in pairs])
    low, high = np.clip([whole - half, whole + half], bounds[0], upper)
    by_chance = np.clip(mean_and_range(drawn), bounds[0], upper)
    same = np.isclose(by_chance, whole, rtol=1e-9, atol=1e-12)  # differ by rounding alone
    by_chance = np.where(same, whole, by_chance)
    columns = ("value", "low", "high", "chance", "chance_low", "chance_high", "draws")
    numbers = np.stack([whole, low, high, *by_chance, np.full(len(keys), len(drawn))], axis=1).tolist()
    return [
        {"layer": layer, "measure": measure, "item": item} | dict(zip(columns, row, strict=True))
        for (measure, item), row in zip(pairs, numbers, strict=True)
    ]


def without_band(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without their chance bands, where these would mislead."""
    return [row | {"chance_low": np.nan, "chance_high": np.nan} for row in rows]


def members(groups: Ints) -> list[Ints]:
    """Return the rows of each group."""
    return np.split(np.argsort(groups, kind="stable"), np.bincount(groups).cumsum()[:-1])


def rows_of_sums(
    data: Choices, place: int, measure: Callable[[Any], Values], sums: Sequence[Any], drawn: Iterable[Any],
    confidence: float, bounds: tuple[float, float] = (0, 1), most: Mapping[str, float] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the rows of a layer whose measures are functions of sums over tokens.

    Args:
        data: the choices.
        place: the index of the layer.
        measure: a function from sums, such as the loads of experts, to values.
        sums: those of each group of documents, `[groups, ...]`.
        drawn: those of each router that knows nothing.
        confidence, bounds, most: as for `rows_of`.
    """
    whole = sum(sums)
    without = [measure(whole - one) for one in sums] if len(sums) > 1 else []
    sizes = np.bincount(data.groups)[: len(without)].tolist()
    return rows_of(
        data.layers[place], measure(whole), without, sizes, [measure(one) for one in drawn], confidence,
        bounds, most,
    )  # fmt: skip


def rows_of_ratios(
    layer: int, parts: Ratios, groups: Ints, drawn: Iterable[Ratios], confidence: float
) -> list[dict[str, Any]]:
    """Return the rows of a layer whose measures are shares: ratios of sums over tokens.

    Args:
        layer: the layer's number.
        parts: measure -> numerators and denominators `[N]`, whose sums are divided.
        groups: the group of documents of each of them, `[N]`.
        drawn: `parts` of each router that knows nothing.
        confidence: of the interval.
    """
    sizes = np.bincount(groups)
    used = np.flatnonzero(sizes)
    value, left_out = {}, {}
    for name, both in parts.items():
        above, below = (np.bincount(groups, some, len(sizes))[used] for some in both)
        value[name] = _divided(above.sum(), below.sum())
        rest = zip(above.sum() - above, below.sum() - below, strict=True)
        left_out[name] = [_divided(*pair) for pair in rest]
    without = [{name: values[i] for name, values in left_out.items()} for i in range(len(used))]
    chance = [{name: _divided(a.sum(), b.sum()) for name, (a, b) in one.items()} for one in drawn]
    return rows_of(layer, value, without, sizes[used].tolist(), chance, confidence, (0, 1))


def _divided(above: Any, below: Any) -> float:
    return float(above / below) if below > 0 else float("nan")


def joint(first: NDArray[Any], after: NDArray[Any], number: int) -> Ints:
    """Return how many tokens have each pair of choices `[E, E]`; dropped choices do not count."""
    taken = (first >= 0) & (after >= 0)
    key = first * number + after
    counts = np.bincount(key if taken.all() else key[taken], minlength=number * number)
    return counts.reshape(number, number)


def permuted_within(documents: Ints, generator: np.random.Generator) -> Ints:
    """Return an order of rows that permutes them within their documents, which are sorted from 0."""
    return np.argsort(documents + generator.random(len(documents)), kind="stable")


def permuted_label_counts(data: Choices, place: int, permutations: int, seed: int) -> Array:
    """Return the counts of experts under permuted labels `[permutations, R, E]`, for the labels that occur.

    Documents of one label exchange it as a whole. In a document with several labels, runs of one label
    exchange labels. The same seed gives the same permutations in all layers.
    """
    assert data.labels is not None
    labels = np.unique(data.labels)
    units = Units(data.num_experts, min(KEPT // data.num_experts, MOST_UNITS), num_views=1)
    units.make_room(int(labels[-1]) + 1)
    if data.sums is not None:
        took = data.sums[:, place].any(axis=1)  # a document without choices has no label to exchange
        sums = data.sums[np.newaxis, took, place].astype(np.float64)
        units.squares_of_tokens += sums.sum()  # every choice counts as a token
        units.add_whole(sums, data.labels[took])
    else:
        tokens = Tokens(num_groups=1)
        for part in tokens.parts(len(data.documents), data.labels, data.documents, data.spans):
            experts = data.experts[place, part.some].astype(np.int64)
            sent = (experts >= 0).astype(np.float64)
            units.add([Shares(sent, np.maximum(experts, 0), data.num_experts)], part)
        units.close()
    permuted = units.permuted(labels, permutations, seed)[0]
    return permuted.astype(np.float64)  # draws that equal the value must not differ from it by rounding


def balanced_loads(tokens: Ints, num_experts: int, draws: int, generator: np.random.Generator) -> Array:
    """Return the counts of experts `[draws, E]` if every token chooses different experts at random.

    For many tokens these are drawn from a multinomial distribution, whose deviations are scaled to the
    variance of choices without replacement. `tokens` `[k + 1]` says how many tokens choose each number of
    experts, from 0.
    """
    counts = np.zeros((draws, num_experts))
    for top_k in range(1, len(tokens)):
        if tokens[top_k]:
            counts += _balanced(int(tokens[top_k]), top_k, num_experts, draws, generator)
    return counts


def _balanced(tokens: int, top_k: int, num_experts: int, draws: int, generator: np.random.Generator) -> Array:
    choices = tokens * top_k
    if tokens > EXACT:
        counts = generator.multinomial(choices, np.full(num_experts, 1.0 / num_experts), size=draws)
        mean, scale = choices / num_experts, np.sqrt((num_experts - top_k) / max(num_experts - 1, 1))
        return np.where(counts == 0, 0.0, np.maximum(mean + scale * (counts - mean), 1e-9))
    found = np.zeros((draws, num_experts))
    for draw in found:
        picked = generator.random((tokens, num_experts)).argpartition(min(top_k, num_experts - 1), axis=1)
        draw += np.bincount(picked[:, :top_k].ravel(), minlength=num_experts)
    return found


def same_loads(
    experts: NDArray[Any], documents: Ints, draws: int, generator: np.random.Generator
) -> list[NDArray[Any]]:
    """Return choices `[T, k]` with the loads of each document and the choices per token, otherwise at random.

    A step pairs tokens of one document that are a random distance apart. Each pair exchanges one expert of
    either token, unless one of them has the other's already. The steps do not change loads, and all results
    are equally likely in the long run.
    """
    now, places = experts.copy(), np.arange(len(experts))
    longest = int(np.bincount(documents).max())
    drawn = []
    for draw in range(draws):
        for _ in range(now.shape[1] * (BETWEEN if draw else MIXING)):
            distance = int(longest ** generator.random())
            first = (places + generator.integers(2 * distance)) // distance % 2 == 0
            a = np.flatnonzero(first[: len(places) - distance])
            a = a[documents[a] == documents[a + distance]]
            b = a + distance
            i, j = generator.integers(now.shape[1], size=(2, len(a)))
            rows_a, rows_b, index = now[a], now[b], places[: len(a)]
            x, y = rows_a[index, i], rows_b[index, j]
            clash = (rows_a == y[:, np.newaxis]).any(axis=1) | (rows_b == x[:, np.newaxis]).any(axis=1)
            swap = ~clash & (x >= 0) & (y >= 0)
            now[a[swap], i[swap]], now[b[swap], j[swap]] = y[swap], x[swap]
        drawn.append(now.copy())
    return drawn
