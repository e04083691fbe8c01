"""A cell of VQA-MNIST from start to results, with the rows of its places."""

from typing import Any

import pytest

import modtf

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("variant", ["group_all_all", "all_all_all_bn", "routed"])
def test_a_cell(variant, tmp_path):
    task = modtf.Task("vqa_mnist", question="attribute", examples=2520)
    sizes: Any = {
        "batch_size": 42,
        "activation_batch_size": 42,
        "tokens": 420,
        "draws": 1,
        "tokens_per_draw": 42,
    }
    protocol = modtf.Protocol(
        modtf.Training(steps=4, batch_size=42, evaluations=2), modtf.Evaluation(batches=2, draws=1, **sizes)
    )
    modtf.run_cell(modtf.Cell(task, 4, variant, ((0, 0),), protocol), tmp_path)
    found = modtf.load_results([str(tmp_path)]).query("checkpoint == 'last'")
    assert set(found.query("measure == 'error'")["condition"]) == {"iid", "novel"}
    alignment = found.query("measure == 'alignment'").set_index("place")["value"]
    assert set(alignment.index) == set(task.places)
    assert alignment[["module", "classifier_groups"]].isna().all()  # one module
    if variant == "group_all_all":  # groups are uneven: perfect against them alone
        assert alignment["encoder_groups"] == 0 < alignment["encoder"]
