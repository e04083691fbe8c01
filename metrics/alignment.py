"""Alignment: the distance from the activation matrix to the nearest one-to-one match of rules and modules."""

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.metrics.activation_matrix import check_activation_matrix, checked, value_of
from modtf.metrics.distributions import Array
from modtf.metrics.registry import register_measure


def _alignment(A: Array, probs: Array) -> Array:
    # A row and a one-hot row differ by 2 (1 - the row's entry at the one).
    rows = np.arange(len(probs))
    each = [one[rows, match_rules(one, probs)] for one in A.reshape(-1, *A.shape[-2:])]
    return np.clip((1.0 - np.reshape(each, A.shape[:-1])) @ probs, 0.0, 1.0)


@register_measure(
    "alignment",
    group="specialisation",
    range=(0.0, 1.0),
    perfect=0.0,
    description="Distance to the nearest match of rules and modules: 0 every rule has its own module.",
    formula=_alignment,
    axis_label="Alignment",
)
def alignment(A: ArrayLike, rule_probs: ArrayLike | None = None) -> float:
    """Return min over matches P of sum_r p(r) sum_m |A_rm - P_rm| / 2; for uniform rules sum |A - P| / (2R).

    P is a 0/1 matrix that gives every rule one module and shares the rules out as evenly as possible: every
    module serves floor(R/M) or ceil(R/M) rules. With as many modules as rules P is a permutation, the
    published definition. With more modules it is a one-to-one match of the rules with R of the modules (the
    Hungarian algorithm on a rectangle). With fewer, each module has ceil(R/M) places to match. So 0 can be
    reached for any R and M. The value stays the same if every rule is split into k equal ones, or if unused
    modules are added. The largest value that occurs is 1 - 1/M: the mean over the M cyclic shifts of any
    match is at most that, and random routing reaches it.

    Args:
        A: activation matrix `[R, M]`, rows p(module | rule).
        rule_probs: p(r) `[R]`, uniform by default.

    Returns:
        0..1, 0 is perfect; NaN for one module or one rule.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> alignment([[0, 1], [1, 0]]), alignment([[0.5, 0.5], [0.5, 0.5]])
        (0.0, 0.5)

    Source: Mittal et al. (2022), Alignment.
    """
    return value_of(_alignment, A, rule_probs)


def best_match(A: ArrayLike, rule_probs: ArrayLike | None = None) -> NDArray[np.intp]:
    """Return the module of each rule, `[R]`, in the best match that `alignment` compares with.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> best_match([[0, 1, 0], [0.2, 0, 0.8]]).tolist()
        [1, 2]
    """
    return match_rules(*checked(A, rule_probs))


def best_permutation(A: ArrayLike, rule_probs: ArrayLike | None = None) -> NDArray[np.intp]:
    """Return an order of the modules, `[M]`, in which matched modules follow their rules; for heat maps.

    With as many modules as rules, `A[:, best_permutation(A)]` has the matched entries on its diagonal.
    Modules have the order of the first rule they serve; modules without a rule come last.

    Args:
        A: activation matrix `[R, M]`.
        rule_probs: p(r) `[R]`, uniform by default.

    Raises:
        ValueError: if A is not an activation matrix, or rule_probs is not a distribution over its rules.

    Example:
        >>> best_permutation([[0.1, 0.0, 0.9], [0.3, 0.7, 0.0]]).tolist()
        [2, 1, 0]
    """
    A = check_activation_matrix(A)
    matched = best_match(A, rule_probs).tolist()
    return np.array(list(dict.fromkeys(matched + list(range(A.shape[1])))), dtype=np.intp)


def match_rules(A: Array, probs: Array) -> NDArray[np.intp]:
    """Solve the assignment of R rules to M modules, or to floor(R/M) or ceil(R/M) places at each."""
    from scipy.optimize import linear_sum_assignment  # slow to import

    weights = probs[:, np.newaxis] * A
    if len(A) > A.shape[1]:
        return _share_out(weights)
    _, columns = linear_sum_assignment(weights, maximize=True)
    return np.asarray(columns)


def _share_out(weights: Array) -> NDArray[np.intp]:
    """Return the module of each of R rules, `[R]`, so that every module has floor(R/M) or ceil(R/M) rules.

    An assignment problem with R columns takes 0.3 s for 2,000 rules, and a measure is computed hundreds of
    times. Here prices first share the rules out nearly evenly. Each price has its own step, which grows while
    the sign stays and halves when it changes (Riedmiller and Braun 1993, Rprop). Then chains of modules,
    shortest paths that lose least, pass on one rule each until all loads are right and no chain gains. The
    prices make the first match the best one for its loads, and each step keeps that. The last match is
    therefore optimal.
    """
    num_rules, num_modules = weights.shape
    low, high = num_rules // num_modules, -(-num_rules // num_modules)
    prices, before, least = np.zeros(num_modules), np.zeros(num_modules), 1e-14 * weights.max()
    step = np.full(num_modules, np.median(weights.std(axis=1)))
    for _ in range(30):
        load = np.bincount((weights - prices).argmax(axis=1), minlength=num_modules)
        side = np.sign(load * num_modules - num_rules)
        step *= np.where(side * before > 0, 1.2, np.where(side * before < 0, 0.5, 1.0))
        prices, before = prices + step * side, side
    module = (weights - prices).argmax(axis=1)
    cost, rule = np.full((num_modules, num_modules), np.inf), np.zeros((num_modules,) * 2, np.intp)
    changed = list(range(num_modules))
    while True:
        for m in changed:  # the smallest loss of moving one of its rules to another module
            rules = np.flatnonzero(module == m)
            cost[m] = np.inf
            if rules.size:
                loss = weights[rules, m, np.newaxis] - weights[rules]
                cheapest = loss.argmin(axis=0)
                cost[m], rule[m] = loss[cheapest, np.arange(num_modules)], rules[cheapest]
        load = np.bincount(module, minlength=num_modules)
        uneven = load.max() > high or load.min() < low
        source = load > high if load.max() > high else load > low
        target = load < low if load.max() <= high and load.min() < low else load < high
        distance, previous = _shortest(cost, source, least)
        ends = np.where(target, distance, np.inf)
        if not ends.min() < (np.inf if uneven else -least):
            return module
        changed = []
        for place in np.flatnonzero(ends <= ends.min() + least).tolist():  # chains that share no module
            chain = [place]
            while previous[chain[-1]] >= 0:
                chain.append(int(previous[chain[-1]]))
            if not set(chain) & set(changed):
                changed += chain
                for to, start in pairwise(chain):
                    module[rule[start, to]] = to


def _shortest(cost: Array, source: NDArray[np.bool_], least: float) -> tuple[Array, NDArray[np.intp]]:
    """Return the distance of each node from the nearest source, and the node before it (-1 at a source)."""
    distance, previous = np.where(source, 0.0, np.inf), np.full(len(cost), -1)
    for _ in range(len(cost)):
        through = distance[:, np.newaxis] + cost
        before = through.argmin(axis=0)
        reached = through[before, np.arange(len(cost))]
        nearer = reached < distance - least
        if not nearer.any():
            break
        distance[nearer], previous[nearer] = reached[nearer], before[nearer]
    return distance, previous
