import pandas as pd
import pytest

from modtf.analysis.labels import family_label, in_report_order, kind_label, variant_label, with_kinds


@pytest.mark.parametrize(
    ("key", "label"),
    [
        (("mlp", "regression", ""), "MLP regression"),
        (("mha", "classification", "search=v2"), "MHA v2 classification"),
        (("rnn", "regression", "target=state"), "RNN state regression"),
    ],
)
def test_kinds_have_the_title_of_their_family(key, label):
    assert kind_label(*key) == label


def test_numbers_among_options_are_named():
    from modtf.families import FAMILIES, Option

    family = FAMILIES["mlp"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(family), "options", (Option("noise", 0.0, "label noise"),))
        assert family_label("mlp", "noise=0.1") == "MLP noise0.1"
    assert family_label("mlp", "noise=0.1") == "MLP noise=0.1"  # of a version that had the option


def test_variants_show_their_options():
    assert variant_label("modular") == "modular"
    assert variant_label("modular", "modules=16,temperature=2") == "modular (modules=16, temperature=2)"


def test_kinds_are_in_the_order_of_the_registry():
    keys = [("rnn", "regression", ""), ("mha", "regression", "search=v2"), ("mha", "regression", "search=v1")]
    keys += [("mlp", "classification", ""), ("mlp", "regression", "")]
    assert in_report_order(keys) == keys[::-1]
    frame = pd.DataFrame([*keys, keys[0]], columns=["arch", "setting", "task_options"])
    kinds = with_kinds(frame)["kind"]
    assert kinds.tolist()[-2:] == ["MLP regression", "RNN regression"]
    assert kinds.cat.categories.tolist() == [kind_label(*key) for key in keys[::-1]]
