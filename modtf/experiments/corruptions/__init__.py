"""Modularity compared with invariance: corruptions of images, and whether learned parts compose."""

#: measures of a composition: how little single corruptions change a unit, how close the composition is to one
ELEMENTAL, COMPOSED = "invariance_elemental", "invariance_composed"
#: the formulas of both: the paper's text, and the released code, which made the paper's figures
PAPER, RELEASED = FORMULAS = ("paper", "released")
#: stages that do not train at the protocol's learning rate: variant -> (option of its trainer, default)
STAGE_RATES = {"modular": ("id_rate", 0.1), "image_space": ("autoencoder_rate", 0.1)}


def invariance_measure(measure: str, formula: str) -> str:
    """Return the name of a measure of invariance by one of the `FORMULAS`.

    Example:
        >>> invariance_measure(ELEMENTAL, RELEASED)
        'invariance_elemental_released'
    """
    return measure if formula == PAPER else f"{measure}_{formula}"
