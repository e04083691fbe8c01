"""The atlas of a mixture of experts: read its activations, write a page on what its modules specialise in."""

from modtf.analysis.atlas.routing import Routing
from modtf.analysis.atlas.tables import Names, print_atlas
from modtf.analysis.atlas.write import PAGE, write_atlas

__all__ = ["PAGE", "Names", "Routing", "print_atlas", "write_atlas"]
