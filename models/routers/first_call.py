"""What no shape tells of a router: that p sums to 1, and whose tokens it is a function of."""

import numpy as np
from keras import ops

from modtf.models.routers.base import Router

TOKENS = 8  # of every member
TOLERANCE = 1e-3  # of p


def check_on_tokens(router: Router, name: str) -> None:
    """Tries a router on a few tokens of every member: once, then with other members, then with other tokens.

    Args:
        router: of a model, built.
        name: of its variant.

    Raises:
        ValueError: where p is no distribution over modules, or changes with what other members, or, unless
            the router says `sees_batch`, other tokens of the batch are given.
    """
    what, random = f"The router {name!r} ({type(router).__name__})", np.random.default_rng(0)
    first, other = (_drawn(router, random) for _ in range(2))
    p = _route(router, first)
    sums = p.sum(axis=1)
    if not (p.min() >= -TOLERANCE and np.abs(sums - 1).max() <= TOLERANCE):  # so of NaN, too
        raise ValueError(
            f"{what} gives p [P, M, T] between {p.min():.4g} and {p.max():.4g}, whose sums over its "
            f"{router.num_modules} modules lie between {sums.min():.4g} and {sums.max():.4g}; expected at "
            "least 0 and the sum 1: take a softmax over axis 1, or divide by the sum."
        )
    same = np.zeros([router.num_members, 1, TOKENS], bool)
    same[0] = True
    if _changes(router, p, first, other, same):
        raise ValueError(
            f"{what} mixes members: p of one changes with what another is given. Axis 0 of p [P, M, T] "
            "counts members, which train side by side as if alone: reduce over axis 1."
        )
    same[:] = np.arange(TOKENS) == TOKENS // 2
    if not router.sees_batch and _changes(router, p, first, other, same):
        raise ValueError(
            f"{what} mixes the batch: p of a token changes with the other tokens. Reduce over axis 1 of p "
            "[P, M, T], not 2, or declare sees_batch = True, which a recurrence refuses."
        )


def _drawn(router: Router, random: np.random.Generator) -> list[np.ndarray]:
    """Rules, what the model makes of them, which may be the rules themselves, and scores, [P, ..., T]."""
    rules, shape = router.num_rules, (router.num_members, TOKENS)
    rule = np.eye(rules)[random.integers(rules, size=shape)].transpose(0, 2, 1)
    features, scores = (
        random.normal(size=(shape[0], n, TOKENS)) for n in (router.rule_width, router.num_modules)
    )
    return [rule, rule if router.rule_width == rules else features, scores]


def _route(router: Router, values: list[np.ndarray], drawn_for: list[np.ndarray] | None = None) -> np.ndarray:
    """p; noise is drawn for the rules of `drawn_for`: what it is a function of is no mixing."""
    rule, features, scores = (ops.convert_to_tensor(value, router.variable_dtype) for value in values)
    extra = router.extra_of(rule if drawn_for is None else ops.convert_to_tensor(drawn_for[0], rule.dtype))
    p = router.route_given(rule, features, scores if router.needs_scores else None, extra)
    return np.asarray(ops.convert_to_numpy(ops.cast(p, "float32")))


def _changes(
    router: Router, p: np.ndarray, first: list[np.ndarray], other: list[np.ndarray], same: np.ndarray
) -> bool:
    """Whether p changes of the tokens that stay the `same` [P, 1, T], where all others become other ones."""
    changed = _route(router, [np.where(same, a, b) for a, b in zip(first, other, strict=True)], first)
    return bool((np.abs(changed - p) * same).max() > TOLERANCE)
