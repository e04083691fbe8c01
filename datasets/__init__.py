"""Rule-based data: the task families, the streams and the TFDS builder `modarch_rules`."""
