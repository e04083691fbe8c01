"""What `launch/bench.py` measures with: CPU time on one core, the textbook implementation, floating-point
operations, and what the compiled program holds in memory."""
