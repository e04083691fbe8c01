"""Modularity against invariance: corruptions of images, and whether what is learned of them composes."""
