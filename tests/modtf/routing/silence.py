"""Check whether a changed file is measured differently without any warning."""

import warnings
from dataclasses import replace

import format_writers as writers
import numpy as np

import modtf

EXPECTED = np.stack([np.bincount(layer.ravel(), minlength=writers.EXPERTS) for layer in writers.CHOSEN])
#: what is said of any file as small and without labels as these
USUAL = ("There are no labels.", "1 of 1 labels", "There are no documents", "8 of 8 modules have fewer than")


def load(thing, **names):
    """How often each expert of each layer was chosen, by layer, and what was said that is not usual."""
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        routing = modtf.read_routing(thing, **{"num_experts": writers.EXPERTS, **names})
        layers = replace(routing, labels=None).measure(permutations=0)
    said = [str(note.message) for note in notes]
    said += [text for layer in layers for text in layer.warnings if not text.startswith(USUAL)]
    return {layer.layer: layer.hard.activation[0] for layer in layers}, said


def is_silent(thing, **names):
    """Return whether the file is measured differently without any warning."""
    try:
        found, said = load(thing, **names)
    except ValueError:
        return False
    expected = EXPECTED / EXPECTED.sum(axis=1, keepdims=True)
    return not said and not (
        len(found) == len(expected) and all(np.allclose(found[n], row) for n, row in enumerate(expected))
    )
