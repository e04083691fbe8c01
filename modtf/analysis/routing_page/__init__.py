"""Read the activations of any mixture of experts, write a page on what its modules specialise in."""

from modtf.analysis.routing_page.followed import followed_sections
from modtf.analysis.routing_page.routing import Routing
from modtf.analysis.routing_page.tables import Names, print_atlas
from modtf.analysis.routing_page.write import PAGE, write_atlas

__all__ = ["PAGE", "Names", "Routing", "followed_sections", "print_atlas", "write_atlas"]
