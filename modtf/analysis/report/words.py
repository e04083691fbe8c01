"""The words of a study's report."""

from modtf.analysis.labels import CHECKPOINT_WORDS

WORDS = {
    "task": "A set of rules with their coefficients, drawn from a data seed. Cells of different R, task type "
    "and width share a data seed's random numbers: they add no tasks.",
    "task type": "A family of tasks with its setting and options, for example MLP regression.",
    "rule": "The function that labels a token. A task has R rules.",
    "module": "A part of a network that computes answers for some tokens (an expert). A model has M modules.",
    "variant": "A way to choose modules: `monolithic` (one module), `modular` (learned from input and rule), "
    "`modular_op` (learned from the rule alone), `gt_modular` (the rule's own module), or a router.",
    "cell": "One task type, R, width and variant. Its models differ in task and seed.",
    "in distribution": "Test data from the distribution of the training data.",
    "out of distribution": "Test data from another distribution, for example with larger inputs "
    "or more tokens. The note below the table names it.",
    "CI": "Confidence interval: Student's t over tasks. All models that share a task are averaged first. "
    "With one task there is none. docs/statistics.md shows how often such intervals are right.",
    "alignment": "Distance of the activation matrix, p(module | rule), from the nearest one-to-one "
    "assignment of modules to rules: 0 is perfect. A variant specialises if its alignment is at most a "
    "quarter of that of random routing, in part up to three quarters, hardly above.",
    "random routing": "Every module with the same probability: a baseline, not a trained model.",
    "collapse": "Some modules receive much less than an equal share of the tokens.",
    "checkpoint": "The weights that a number belongs to: "
    + "; ".join(f"{name}: {meant}" for name, meant in CHECKPOINT_WORDS.items())
    + ".",
    "protocol": "How a cell was trained and evaluated: eight digits of a hash of all settings, and the "
    "learning rate after @.",
}
