"""A simulated router of eight experts: five have one label each, two share a label, one is hardly used."""

import numpy as np

import modtf
from modtf.routing import report_text

TOKENS, EXPERTS, LABELS = 20_000, 8, 6

generator = np.random.default_rng(0)
labels = generator.integers(LABELS, size=TOKENS)
preference = 4.0 * np.eye(LABELS, EXPERTS)  # expert m prefers label m
preference[5, 6] = 4.0  # expert 6 shares the label of expert 5
preference[:, 7], preference[0, 7] = -6.0, -2.0
logits = preference[labels] + generator.normal(size=(TOKENS, EXPERTS))

documents = np.arange(TOKENS)  # tokens are independent
layers = modtf.measure_activations(logits, labels, documents=documents, from_logits=True, top_k=2)
print(report_text(layers))
for row in layers[0].module_rows():
    if row["by"] == "hard":
        print(
            f"expert {row['module']}: {row['tokens']} tokens, {row['top_label_share']:.0%} of label", end=" "
        )
        print(f"{row['top_label']}, by chance {row['top_label_chance']:.0%}")
