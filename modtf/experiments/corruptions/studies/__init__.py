"""The studies of the corruptions; `modtf.studies.load` registers them by name."""
