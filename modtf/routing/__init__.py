"""Routing of real mixtures of experts: read it, record it, measure it, report it. No TensorFlow, no Keras."""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.routing.analyses.registry import ANALYSES as ANALYSES
    from modtf.routing.analyses.registry import Analysed as Analysed
    from modtf.routing.analyses.registry import Analysis as Analysis
    from modtf.routing.formats.registry import FORMATS as FORMATS
    from modtf.routing.measuring import Experts as Experts
    from modtf.routing.names import Names as Names
    from modtf.routing.report.tables import report_text as report_text
    from modtf.routing.report.write import PAGE as PAGE
    from modtf.routing.report.write import write_routing_report as write_routing_report
    from modtf.routing.routing import EXAMPLE as EXAMPLE
    from modtf.routing.routing import Routing as Routing
    from modtf.routing.routing import read_routing as read_routing
