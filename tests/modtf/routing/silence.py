"""Check whether a changed file is measured differently without any warning."""

import warnings
from dataclasses import replace

import format_writers as writers
import numpy as np

import modtf
from modtf.routing.measuring.damage import ONE_ASSUMED

EXPECTED = np.stack([np.bincount(layer.ravel(), minlength=writers.EXPERTS) for layer in writers.CHOSEN])
#: the warnings about every file that is as small as these and has no labels
USUAL = (
    "There are no labels.",
    "Label 0 ",
    "There are no documents",
    "All 8 experts received fewer than",
    ONE_ASSUMED,
)


def load(thing, **names):
    """Return how often each expert was chosen, by layer, and the warnings that are not usual."""
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        routing = modtf.read_routing(thing, **{"num_experts": writers.EXPERTS, **names})
        layers = replace(routing, labels=None).measure(permutations=0)
    notes = [str(note.message) for note in noted]
    notes += [text for layer in layers for text in layer.warnings if not text.startswith(USUAL)]
    return {layer.layer: layer.hard.activation[0] for layer in layers}, notes


def is_silent(thing, **names):
    """Return whether the file is measured differently without any warning."""
    try:
        measured, notes = load(thing, **names)
    except ValueError:
        return False
    expected = EXPECTED / EXPECTED.sum(axis=1, keepdims=True)
    return not notes and not (
        len(measured) == len(expected)
        and all(np.allclose(measured[n], row) for n, row in enumerate(expected))
    )
