"""Measurements of `launch/bench.py`: CPU time of a core or wall time of a device, on each Keras backend."""
