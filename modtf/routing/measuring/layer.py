"""The measures of one layer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from modtf.metrics.distributions import Array
from modtf.routing.measuring.checks import Ints

# With less than five tokens to expect of a label, its share among a module's tokens is noise (Cochran, 1954,
# "Some Methods for Strengthening the Common Chi-Squared Tests"): a module with few tokens looks exclusive.
TOKENS_PER_LABEL = 5
ALL_TOKENS = "all tokens"  # the name of the only label where there are no labels


@dataclass(frozen=True)
class Estimate:
    """A value, its confidence interval, and what permuted labels give: their mean and 95% of them.

    NaN where it is not known: without labels of tokens there is no interval and no chance.
    """

    value: float
    low: float = np.nan
    high: float = np.nan
    chance: float = np.nan
    chance_low: float = np.nan
    chance_high: float = np.nan


@dataclass(frozen=True)
class View:
    """One layer by one way of counting.

    Attributes:
        by: "mass", the probability that modules are given; "hard", the modules that are chosen.
        activation: the activation matrix `[R, M]`, p(module | label).
        use: p(module) `[M]`.
        values: measure -> estimate.
        top_label: `[M]`, the label that is most frequent where a module is active.
        top_label_share: `[M]`, its share; NaN for a module that is never active.
        top_label_chance: `[M]`, the share of the then most frequent label under permuted labels, their mean:
            what a module with so few tokens shows by chance.
        shares: `[R, M]`, p(label | module); NaN for a module that is never active.
        excess: `[R, M]`, by how many standard deviations of permuted labels p(label | module) is above what
            these give; NaN for modules with too few tokens.
        largest_excess_by_chance: `[permutations]`, the largest excess in each: of so many modules and labels
            some look special. What is above 95% of these is beyond chance.
        bits: `[R]`, what the module tells of a label: sum_m p(m | label) log2 p(m | label) / p(m).
        bits_by_chance: `[3, R]`, under permuted labels, their mean and the middle 95%.
        shuffled: `[R, M]`, the activation matrix of one permutation; None without any.
    """

    by: str
    activation: Array
    use: Array
    values: Mapping[str, Estimate]
    top_label: Ints
    top_label_share: Array
    top_label_chance: Array
    shares: Array
    excess: Array
    largest_excess_by_chance: Array
    bits: Array
    bits_by_chance: Array
    shuffled: Array | None


@dataclass(frozen=True)
class LayerMeasures:
    """The measures of one layer.

    Attributes:
        layer: its number, from 0.
        labels: `[R]`, the labels that occur; the rows of the activation matrices.
        label_counts: `[R]`, their tokens; None for a bare activation matrix.
        module_tokens: `[M]`, tokens sent to each module (a token to k of them by top-k); None as above.
        too_few: `[M]`, the modules with fewer than 5 tokens for each of the R labels: what they specialise
            in cannot be judged. None as above.
        views: by gate mass and by hard assignment; the former alone for a bare activation matrix.
        warnings: what a reader should know first.
        label_names: names of all labels by their numbers, if they came with names.
        dropped: tokens that no module took.
        how: how it was measured, for readers.
    """

    layer: int
    labels: Ints
    label_counts: Ints | None
    module_tokens: Ints | None
    too_few: Any
    views: tuple[View, ...]
    warnings: tuple[str, ...]
    label_names: tuple[str, ...] | None = None
    dropped: int = 0
    how: str = ""

    @property
    def mass(self) -> View:
        """Return the view by gate mass."""
        return self.views[0]

    @property
    def hard(self) -> View:
        """Return the view by hard assignment.

        Raises:
            ValueError: for a bare activation matrix, of which only the mean mass is known.
        """
        if len(self.views) < 2:
            raise ValueError(
                "An activation matrix says nothing of hard assignment; give the tokens' activations."
            )
        return self.views[1]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per view and measure.

        Its keys are layer, by, measure, value, low, high, chance, chance_low, chance_high.
        """
        return [
            {"layer": self.layer, "by": view.by, "measure": name, **vars(estimate)}
            for view in self.views
            for name, estimate in view.values.items()
        ]

    def module_rows(self) -> list[dict[str, Any]]:
        """Return one dict per view and module.

        Its keys are layer, by, module, use, tokens, too_few, top_label, top_label_share, top_label_chance;
        where labels came with names, after top_label also top_label_name.
        """
        names = self.label_names
        return [
            {
                "layer": self.layer,
                "by": view.by,
                "module": module,
                "use": float(use),
                "tokens": None if self.module_tokens is None else int(self.module_tokens[module]),
                "too_few": None if self.too_few is None else bool(self.too_few[module]),
                "top_label": int(view.top_label[module]),
                **({} if names is None else {"top_label_name": names[view.top_label[module]]}),
                "top_label_share": float(view.top_label_share[module]),
                "top_label_chance": float(view.top_label_chance[module]),
            }
            for view in self.views
            for module, use in enumerate(view.use)
        ]
