"""What a study shows: summaries, comparisons, rankings, claims, figures, the report. No TensorFlow."""

from modtf.analysis.baseline import against
from modtf.analysis.correction import holm
from modtf.analysis.intervals import data_seed_means, intervals, t_interval
from modtf.analysis.judged import judge_measures
from modtf.analysis.judged_words import over_kinds, print_judged
from modtf.analysis.labels import kind_label, variant_label, with_kinds
from modtf.analysis.learned import learned_measures
from modtf.analysis.missing import find_missing
from modtf.analysis.paired import PAIRS, compare_pairs, match_members
from modtf.analysis.performance import IN, OUT, performance_rows
from modtf.analysis.random_baseline import random_baseline
from modtf.analysis.ranking import rank, votes
from modtf.analysis.study import Study
from modtf.analysis.summary import summarise
from modtf.analysis.table import results_table, table_note

__all__ = [
    "IN",
    "OUT",
    "PAIRS",
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
    "over_kinds",
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
