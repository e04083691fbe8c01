"""The report where nothing could be tested: too few tokens, or too few permutations."""

from dataclasses import replace

import numpy as np
import pytest

import modtf
from modtf.routing import Names, write_routing_report
from modtf.routing.report.findings import findings
from modtf.routing.report.tables import special_experts


def test_labels_without_enough_tokens_or_draws_cannot_be_judged():
    """Tokens as labels: no expert has five tokens of each. Below three permutations there is no excess."""
    labels = np.arange(300) // 2
    found = modtf.measure_activations(np.eye(3)[labels % 3], labels, permutations=3)
    [row] = special_experts(found, Names()).itertuples()
    assert (row.label, row.layer) == ("all 150", "cannot be judged: too few tokens")
    few = modtf.measure_activations(np.eye(3)[labels % 3], labels % 3, permutations=2)
    [row] = special_experts(few, Names()).itertuples()
    assert (row.label, row.layer) == ("all 3", "cannot be judged: fewer than 3 permutations")
    excess = few[0].hard.excess.copy()
    excess[0] = 0.0
    judged = replace(few[0], views=(replace(few[0].hard, excess=excess),))
    assert special_experts([judged], Names())["label"].tolist() == ["1 more", "2 more"]


@pytest.mark.parametrize(("permutations", "shown"), [(0, (0, 0, 0)), (1, (0, 1, 1)), (2, (1, 1, 1))])
def test_a_page_shows_no_figure_of_permutations_that_were_not_drawn(permutations, shown, tmp_path):
    labels = np.arange(300) // 3 % 3
    found = modtf.measure_activations(np.eye(3)[labels], labels, permutations=permutations)
    text = write_routing_report(found, tmp_path).read_text()
    parts = (
        "chosen expert carries about each label",
        "Most specialised experts</h2>",
        "right one has shuffled",
    )
    assert tuple(text.count(part) for part in parts) == shown
    assert (tmp_path / "labels.png").exists() == bool(shown[0])
    why = ("no permutations were drawn", "one permutation is too few")
    assert [f"is unknown, because {reason}." in text for reason in why] == [permutations == n for n in (0, 1)]


def test_one_token_of_each_label_says_nothing():
    alone = modtf.measure_activations(np.eye(9), np.arange(9), permutations=3)
    text = findings(alone, Names(), {})[0]
    assert text.endswith("is unknown, because experts carry as much about permuted labels.")
