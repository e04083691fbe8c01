"""Experiments, one folder each: claims, figures and studies of its own. Registries below name them."""
