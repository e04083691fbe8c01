"""Analyses of routing in the field's terms, each with a chance level and an interval over documents.

Names are imported on first use.
"""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.routing.analyses.chance import permuted_label_counts as permuted_label_counts
    from modtf.routing.analyses.chance import permuted_within as permuted_within
    from modtf.routing.analyses.chance import rows_of as rows_of
    from modtf.routing.analyses.chance import rows_of_ratios as rows_of_ratios
    from modtf.routing.analyses.chance import rows_of_sums as rows_of_sums
    from modtf.routing.analyses.choices import Choices as Choices
    from modtf.routing.analyses.choices import read_choices as read_choices
    from modtf.routing.analyses.registry import ANALYSES as ANALYSES
    from modtf.routing.analyses.registry import Analysed as Analysed
    from modtf.routing.analyses.registry import Analyses as Analyses
    from modtf.routing.analyses.registry import Analysis as Analysis
    from modtf.routing.analyses.registry import Options as Options
    from modtf.routing.analyses.registry import analyse_routing as analyse_routing
    from modtf.routing.analyses.registry import register_analysis as register_analysis
    from modtf.routing.drawing import draw_measures as draw_measures
