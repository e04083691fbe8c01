"""What a study shows: summaries, comparisons, rankings, claims, figures, the report. No TensorFlow."""

from modtf.analysis.contents import find_missing
from modtf.analysis.intervals import data_seed_means, holm, intervals, t_interval
from modtf.analysis.labels import kind_label, variant_label, with_kinds
from modtf.analysis.pairs import against, compare_pairs, match_members, next_informed
from modtf.analysis.ranking import rank, votes
from modtf.analysis.rows import IN, OUT, performance_rows, random_baseline
from modtf.analysis.study import Study
from modtf.analysis.summary import summarise
from modtf.analysis.table import results_table, table_note
from modtf.analysis.tracking import judge_measures, learned_measures, print_judged

__all__ = [
    "IN",
    "OUT",
    "Study",
    "against",
    "compare_pairs",
    "data_seed_means",
    "find_missing",
    "holm",
    "intervals",
    "judge_measures",
    "kind_label",
    "learned_measures",
    "match_members",
    "next_informed",
    "performance_rows",
    "print_judged",
    "random_baseline",
    "rank",
    "results_table",
    "summarise",
    "t_interval",
    "table_note",
    "variant_label",
    "votes",
    "with_kinds",
]
