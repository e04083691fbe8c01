"""Everything that relies on internal or experimental names of TensorFlow or Keras.

Each says in which version it was seen; `tests/modtf/xla` says so when another one changes it. (Gradients that
kernels register stand beside them, in `modtf.models.kernels.gradients`.)
"""
