"""The report: what a study shows, as one HTML page."""
