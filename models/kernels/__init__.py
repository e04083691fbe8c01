"""Operations written for XLA, most with a gradient of their own; `textbook` holds the plain form of each.

They know tensors alone: no layer, no router, no model. Why each is as it is, docs/performance.md tells.
"""
