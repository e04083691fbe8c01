"""The former name of `modtf.routing`, the routing report; it still works, with a deprecation warning."""

from modtf.moved import moved_names

__getattr__ = moved_names(
    __name__,
    {
        "Names": "modtf.routing:Names",
        "PAGE": "modtf.routing:PAGE",
        "Routing": "modtf.routing:Routing",
        "print_atlas": "modtf.routing:report_text",
        "write_atlas": "modtf.routing:write_routing_report",
    },
)
