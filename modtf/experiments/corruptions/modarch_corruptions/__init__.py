"""The TFDS builder `modarch_corruptions`."""
