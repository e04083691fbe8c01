"""Measures trained models: performance under every condition, activation, and derived measures."""
