"""Training: `model.fit` on a stream, for one model or a population."""
