"""All figures by name, in the order of the report. A new one is a file with `draw` and one line here."""

from collections.abc import Callable, Iterator

from modtf.analysis.figures.base import Choice, Picture
from modtf.registry import Registry
from modtf.analysis.study import Study

Draw = Callable[[Study, Choice], Iterator[Picture]]
HERE = "modtf.analysis.figures"
FIGURES: Registry[Draw] = Registry(
    "figure",
    {
        "ranking": f"{HERE}.ranking:draw",
        "ranking_pies": f"{HERE}.ranking_pies:draw",
        "paired_comparisons": f"{HERE}.paired_comparisons:draw",
        "performance_vs_num_rules": f"{HERE}.performance_vs_num_rules:draw",
        "performance_vs_width": f"{HERE}.performance_vs_width:draw",
        "performance_vs_seq_len": f"{HERE}.performance_vs_seq_len:draw",
        "collapse_and_specialisation_vs_num_rules": f"{HERE}.specialisation_lines:draw",
        "collapse_and_specialisation_bars": f"{HERE}.specialisation_bars:draw",
        "training_curves": f"{HERE}.training_curves:draw",
        "activation": f"{HERE}.activation:draw",
        "activation_evolution": f"{HERE}.activation_evolution:draw",
    },
)
