"""The figures of the report, one file each, behind a registry."""

from modtf.analysis.figures.base import Choice, NothingToDraw, Picture
from modtf.analysis.figures.registry import FIGURES

__all__ = ["FIGURES", "Choice", "NothingToDraw", "Picture"]
