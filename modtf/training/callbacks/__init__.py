"""Keras callbacks: evaluation, checkpoints, progress bar, TensorBoard. One class per file."""
