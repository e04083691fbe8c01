"""Data of the families: one class of `RuleData` per family makes and labels its tokens."""
