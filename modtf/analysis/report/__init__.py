"""The report: what a study shows, as one HTML page, with figures and tables beside it."""
