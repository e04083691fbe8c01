"""Tasks with known rules: families, conditions, protocols, cells and populations, without TensorFlow."""
