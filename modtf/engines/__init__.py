"""Who runs the cells of a study. All engines share one function, `modtf.run_cell`."""
