"""The report: what a study shows, as one HTML page, with figures and tables beside it."""

from modtf.analysis.report.write import FOLDERS, PAGE, write_report

__all__ = ["FOLDERS", "PAGE", "write_report"]
