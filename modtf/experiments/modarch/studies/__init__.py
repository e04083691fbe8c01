"""The studies of the paper's experiment; `modtf.studies.load` knows them by name."""
