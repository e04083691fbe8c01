"""Modularity against invariance: corruptions of images, and whether what is learned of them composes."""

#: measures, of a composition: how far single corruptions change a unit, and how far their composition does
ELEMENTAL, COMPOSED = "invariance_elemental", "invariance_composed"
