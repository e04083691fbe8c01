"""The committed results that the pages of results come from, and the studies that made them."""

import sys
from pathlib import Path
from types import ModuleType

import modtf

DOCS = Path(__file__).parents[1]
RESULTS = DOCS / "study"


def read(*names: str) -> modtf.Study:
    """Read archives of docs/study."""
    return modtf.Study.read([RESULTS / f"{name}.zip" for name in names])


def study_file(name: str) -> ModuleType:
    """Return a file of docs/studies as a module."""
    modtf.load_plugin(DOCS / "studies" / f"{name}.py")
    return sys.modules[name]
