"""The TFDS builder `modarch_vqa`."""
