"""`modarch_rules`: the rule-based tasks as a TensorFlow Datasets builder. README.md describes it."""
