"""What `launch/bench.py` measures with, by the clock of a core or of a device, on each backend of Keras."""
