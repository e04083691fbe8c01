"""The TFDS builder `modarch_languages`."""
