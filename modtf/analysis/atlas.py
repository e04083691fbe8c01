"""The old place of the routing report, `modtf.routing`; its names still work, with a deprecation warning."""

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
