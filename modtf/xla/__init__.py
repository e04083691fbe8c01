"""Everything that relies on internal or experimental names of TensorFlow or Keras.

Each module names the version in which it was seen, and `tests/modtf/xla` fails if another version changes it.
(Gradients that kernels register are in `modtf.models.kernels.gradients`.)
"""
