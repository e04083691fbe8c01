"""Modularity against invariance: corruptions of images, and whether what is learned of them composes."""

#: measures, of a composition: how far single corruptions change a unit, and how far their composition does
ELEMENTAL, COMPOSED = "invariance_elemental", "invariance_composed"
#: the formulas of both: that of the text, and that of the released code, from which its figures are
PAPER, RELEASED = FORMULAS = ("paper", "released")


def invariance_measure(measure: str, formula: str) -> str:
    """Return the name of a measure of invariance by one of the `FORMULAS`.

    Example:
        >>> invariance_measure(ELEMENTAL, RELEASED)
        'invariance_elemental_released'
    """
    return measure if formula == PAPER else f"{measure}_{formula}"
