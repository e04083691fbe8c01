"""The analysis of a study: summaries, comparisons, rankings, claims, figures, the report. No TensorFlow.

Names are imported on first use.
"""

from etils import epy

from modtf.analysis.intervals import intervals as intervals  # now, as a module has this name, too

with epy.lazy_api_imports(globals()):
    from modtf.analysis.intervals import data_seed_means as data_seed_means
    from modtf.analysis.intervals import holm as holm
    from modtf.analysis.intervals import summarise as summarise
    from modtf.analysis.intervals import t_interval as t_interval
    from modtf.analysis.labels import kind_label as kind_label
    from modtf.analysis.labels import variant_label as variant_label
    from modtf.analysis.labels import with_kinds as with_kinds
    from modtf.analysis.pairs import against as against
    from modtf.analysis.pairs import compare_pairs as compare_pairs
    from modtf.analysis.pairs import match_members as match_members
    from modtf.analysis.pairs import next_informed as next_informed
    from modtf.analysis.pairs import rank as rank
    from modtf.analysis.pairs import votes as votes
    from modtf.analysis.rows import IN as IN
    from modtf.analysis.rows import OUT as OUT
    from modtf.analysis.rows import performance_rows as performance_rows
    from modtf.analysis.rows import random_baseline as random_baseline
    from modtf.analysis.study import Study as Study
    from modtf.analysis.table import results_table as results_table
    from modtf.analysis.table import table_note as table_note
    from modtf.analysis.tracking import judge_measures as judge_measures
    from modtf.analysis.tracking import learned_measures as learned_measures
    from modtf.analysis.tracking import print_judged as print_judged
    from modtf.analysis.trained import find_missing as find_missing
