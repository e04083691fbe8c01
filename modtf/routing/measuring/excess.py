"""How far shares lie beyond those of routers that know nothing."""

import numpy as np

from modtf.metrics.distributions import Array

FEWEST_DRAWS = 3  # a draw is compared with at least two others
EQUAL = 1e-6  # draws whose squares sum to less, in units of the spread, count as equal


class Excess:
    """How far shares lie above those drawn by chance, in standard deviations of a new draw.

    A share is compared with all draws, and each draw with the others. If draws were compared with a mean and
    spread that include themselves, they would seem less extreme than a new draw of the same router. Where all
    draws, or all others, are equal, the excess is 0.

    Args:
        drawn: shares by chance, `[draws, ...]`, with at least `FEWEST_DRAWS` draws.

    Source: R. D. Cook and S. Weisberg (1982), "Residuals and Influence in Regression", section 2.2.1
    (externally studentized residuals).
    """

    def __init__(self, drawn: Array):
        self.number = len(drawn)
        self.centre, spread = drawn.mean(axis=0), drawn.std(axis=0)
        self.spread = np.where(spread > 0, spread, np.inf)
        self.spread_of_new = self.spread * np.sqrt((self.number + 1) / (self.number - 1))

    def of(self, share: Array) -> Array:
        """Return the excess of a share that is not among the draws, `[...]`."""
        return np.asarray((share - self.centre) / self.spread_of_new)

    def share_at(self, excess: float) -> Array:
        """Return the share that has this excess, `[...]`; the inverse of `of`."""
        return np.asarray(self.centre + excess * self.spread_of_new)

    def of_draw(self, share: Array) -> Array:
        """Return the excess of one of the draws over the others, `[...]`."""
        distance = (share - self.centre) / self.spread
        others = self.number - 1 - distance**2
        return np.asarray(distance * np.sqrt((self.number - 2) / np.where(others > EQUAL, others, np.inf)))

    def largest(self, drawn: Array) -> Array:
        """Return the largest excess in each draw `[draws]`, given all draws `[draws, ...]`."""
        return np.array([self.of_draw(one).max() for one in drawn])
