"""The studies of the corruptions; `modtf.studies.load` knows them by name."""
