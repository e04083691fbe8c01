"""The figures of the report, their registry and drawing functions. Names are imported on first use."""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.analysis.figures.averages import average as average
    from modtf.analysis.figures.averages import means as means
    from modtf.analysis.figures.averages import note as note
    from modtf.analysis.figures.averages import overview_and_widths as overview_and_widths
    from modtf.analysis.figures.averages import performance as performance
    from modtf.analysis.figures.layout import bars as bars
    from modtf.analysis.figures.layout import curves as curves
    from modtf.analysis.figures.layout import lines as lines
    from modtf.analysis.figures.layout import panels as panels
    from modtf.analysis.figures.registry import FIGURES as FIGURES
    from modtf.analysis.figures.registry import Choice as Choice
    from modtf.analysis.figures.registry import register_figure as register_figure
    from modtf.pages.pictures import NothingToDraw as NothingToDraw
    from modtf.pages.pictures import Picture as Picture
    from modtf.pages.pictures import Pictures as Pictures
