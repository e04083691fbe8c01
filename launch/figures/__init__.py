"""The figures of the report, one file each, behind a registry."""

from modtf.launch.figures.base import Choice, NothingToDraw, Picture
from modtf.launch.figures.registry import FIGURES

__all__ = ["FIGURES", "Choice", "NothingToDraw", "Picture"]
