"""The studies of the paper's experiment; `modtf.studies.load` registers them by name."""
