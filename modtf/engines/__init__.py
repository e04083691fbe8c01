"""Who runs the cells of a study. All engines share one function, `modtf.engines.cell.run_cell`."""
