"""Operations written for XLA, most with a gradient of their own; `textbook` holds the plain form of each.

They work on tensors and know no layer, router or model. docs/performance.md gives the reason for each form.
"""
