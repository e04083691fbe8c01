"""How tokens are made and labelled: one class of `RuleData` per family."""
