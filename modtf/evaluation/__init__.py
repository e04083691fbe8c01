"""Measuring trained models: performance under every condition, activation, and what follows from it."""
