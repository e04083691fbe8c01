"""What `launch/bench.py --device` measures with: wall time of whole training programs on one device."""
