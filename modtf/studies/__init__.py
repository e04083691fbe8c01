"""Studies: lists of cells, written as short files in the algebra of grids."""

from modtf.studies.grid import Grid, grid, together
from modtf.studies.load import STUDIES, StudyFile, load_study, register_study

__all__ = ["STUDIES", "Grid", "StudyFile", "grid", "load_study", "register_study", "together"]
