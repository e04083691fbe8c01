"""What rests on the inside of TensorFlow or Keras, or on names they call experimental: here and nowhere else.

Each says in which version it was seen; `tests/modtf/xla` says so when another one changes it. (Gradients that
kernels register stand beside them, in `modtf.models.kernels.gradients`.)
"""
