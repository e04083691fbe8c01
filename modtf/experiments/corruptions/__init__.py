"""Modularity compared with invariance: corruptions of images, and whether learned parts compose."""

#: measures of a composition: how little single corruptions change a unit, how close the composition is to one
ELEMENTAL, COMPOSED = "invariance_elemental", "invariance_composed"
#: the formulas of both: the paper's text, and the released code, which made the paper's figures
PAPER, RELEASED = FORMULAS = ("paper", "released")


def invariance_measure(measure: str, formula: str) -> str:
    """Return the name of a measure of invariance by one of the `FORMULAS`.

    Example:
        >>> invariance_measure(ELEMENTAL, RELEASED)
        'invariance_elemental_released'
    """
    return measure if formula == PAPER else f"{measure}_{formula}"
