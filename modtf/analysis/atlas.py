"""The public names of `modtf.analysis.routing_page`."""

from modtf.analysis.routing_page import PAGE, Names, Routing, print_atlas, write_atlas

__all__ = ["PAGE", "Names", "Routing", "print_atlas", "write_atlas"]
