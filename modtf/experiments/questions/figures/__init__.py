"""The figures of questions."""
