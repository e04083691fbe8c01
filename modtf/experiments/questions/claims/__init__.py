"""Claims of the papers on questions."""
