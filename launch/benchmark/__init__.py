"""The measurements of `launch/bench.py`, by the clock of a core or of a device, on each backend of Keras."""
