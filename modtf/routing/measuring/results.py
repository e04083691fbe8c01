"""The measures of one layer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from modtf.metrics.distributions import Array
from modtf.routing.measuring.layers import Ints

# If a module has fewer than five tokens per label, a label's share of them is noise, and the module looks
# exclusive (Cochran, 1954, "Some Methods for Strengthening the Common Chi-Squared Tests").
TOKENS_PER_LABEL = 5
ALL_TOKENS = "all tokens"  # the name of the only label of unlabelled tokens
ROUNDING = 1e-6  # of a measure and its chance level, which add the same 32-bit numbers in another order


@dataclass(frozen=True)
class Estimate:
    """A value, its confidence interval, and its chance level: mean and 95% interval under permuted labels.

    Unknown numbers are NaN. Without labels of tokens there is no interval and no chance level.
    """

    value: float
    low: float = np.nan
    high: float = np.nan
    chance: float = np.nan
    chance_low: float = np.nan
    chance_high: float = np.nan


@dataclass(frozen=True)
class View:
    """The measures of one layer by one way of counting.

    Attributes:
        by: "mass" for the probabilities of modules; "hard" for the chosen modules.
        activation: the activation matrix `[R, M]`, p(module | label).
        use: p(module) `[M]`.
        values: measure -> estimate.
        top_label: `[M]`, the most frequent label among a module's tokens.
        top_label_share: `[M]`, the share of `top_label`; NaN for a module that is never active.
        top_label_chance: `[M]`, the mean share of the most frequent label under permuted labels: the value to
            expect by chance from this number of tokens.
        shares: `[R, M]`, p(label | module); NaN for a module that is never active.
        excess: `[R, M]`, p(label | module) minus its mean under permuted labels, in standard deviations of a
            further permutation; NaN for modules with too few tokens, and with fewer than 3 permutations.
        largest_excess_by_chance: `[permutations]`, the largest excess in each permutation. With many modules
            and labels some excess is large by chance; above 95% of these values it is beyond chance.
        bits: `[R]`, the information of a label about the module: sum_m p(m | label) log2 p(m | label) / p(m).
        bits_by_chance: `[3, R]`, the mean and 95% interval of `bits` under permuted labels.
        shuffled: `[R, M]`, the activation matrix of one permutation; None without permutations.
        adjusted_by_chance: `[permutations]`, the adjusted mutual information in each permutation; empty if it
            is unknown.
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
    adjusted_by_chance: Array = field(default_factory=lambda: np.zeros(0))

    def known_top_labels(self) -> list[int | None]:
        """Return the top label of each module, or None for a module that is never used."""
        never = np.isnan(self.top_label_share)
        return [None if no else int(one) for one, no in zip(self.top_label, never, strict=True)]


@dataclass(frozen=True)
class LayerMeasures:
    """The measures of one layer.

    Attributes:
        layer: the layer's number, from 0.
        labels: `[R]`, the labels that occur; the rows of the activation matrices.
        module_numbers: `[M]`, the numbers of the modules; the columns of the activation matrices. Without
            shared experts these are 0 to M - 1.
        label_counts: `[R]`, the tokens of each label; None for a bare activation matrix.
        module_tokens: `[M]`, tokens sent to each module (top-k sends a token to k modules); None as above.
        too_few: `[M]`, whether a module has fewer than 5 tokens for each of the R labels, so that its
            specialisation cannot be judged. None as above.
        views: by gate mass and by hard assignment; only by gate mass for a bare activation matrix.
        warnings: what a reader should know first.
        label_names: the names of all labels, indexed by number, if the labels have names.
        dropped: the number of tokens that no module took.
        how: how the layer was measured, for readers.
    """

    layer: int
    labels: Ints
    module_numbers: Ints
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
            ValueError: if the layer was measured from a bare activation matrix, which holds only the mean
                gate mass.
        """
        if len(self.views) < 2:
            raise ValueError(
                "An activation matrix has no information about hard assignment. Give the tokens' activations."
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

        Its keys are layer, by, module, use, tokens, too_few, top_label, top_label_share, top_label_chance. If
        labels have names, top_label_name follows top_label.
        """
        names = self.label_names
        return [
            {
                "layer": self.layer,
                "by": view.by,
                "module": int(self.module_numbers[module]),
                "use": float(use),
                "tokens": None if self.module_tokens is None else int(self.module_tokens[module]),
                "too_few": None if self.too_few is None else bool(self.too_few[module]),
                "top_label": top,
                **({} if names is None else {"top_label_name": None if top is None else names[top]}),
                "top_label_share": float(view.top_label_share[module]),
                "top_label_chance": float(view.top_label_chance[module]),
            }
            for view in self.views
            for module, (use, top) in enumerate(zip(view.use, view.known_top_labels(), strict=True))
        ]
