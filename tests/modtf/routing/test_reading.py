"""Files that look like something else: each gives a right number, or one line that says what is wrong."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import modtf
from modtf.routing.measuring import Experts
from modtf.routing.report.compared import check_comparable

TOKENS = 60
GATES = np.random.default_rng(0).dirichlet(np.ones(4), TOKENS)
CHOSEN = np.argsort(-GATES, axis=1)[:, :2]
HALF = np.arange(TOKENS) % 2
LIST = {"experts": CHOSEN, "num_experts": 4}
DOCUMENTS = np.arange(TOKENS) // 6
WORDS = np.array(["the", "of", "and", "cat"])[np.arange(TOKENS) % 4]
COUNTS = {"counts": np.array([[[1, 2]], [[3, 1]], [[4, 5]]])}
LOGITS = {"router_logits": (np.zeros((6, 4)),)}


@pytest.mark.parametrize(
    ("arrays", "names", "message"),
    [
        ({"activations": np.full((TOKENS, 12, 4), 0.25)}, {}, "with fewer tokens than layers. Transpose"),
        (LIST | {"layer": HALF}, {}, "'layer' of .* says that rows belong to 2 layers; expected a row for"),
        (
            {"activations": GATES},
            {"shared": [0]},
            "--shared applies to chosen experts, but the file holds gates",
        ),
        ({"activations": GATES}, {"num_experts": 8}, "--num_experts applies to chosen"),
        (LIST, {"num_layers": 3}, "holds 1 layers, but num_layers=3. Leave it out"),
        (
            LIST | {"labels": HALF, "label_names": np.array(["law", "code"])[HALF]},
            {},
            "label_names hold 'law' twice; expected a different name for each label",
        ),
        (
            {"experts": [CHOSEN] * 2, "num_experts": 4, "layer_names": ["moe"] * 2},
            {},
            "layer_names hold 'moe' twi",
        ),
        (
            LIST | {"num_experts": np.full(TOKENS, 4)},
            {},
            r"num_experts is \[4, 4, 4, 4, 4, 4, \.\.\.\]; expected",
        ),
        ({"counts": np.ones((3, 1, 4))}, {"num_experts": 3}, "counts 4 experts, but num_experts is 3"),
        (COUNTS, {"documents": "nonsense"}, r"each row of which is a document, so documents do not apply"),
        (
            COUNTS | {"documents": [0, 0, 1]},
            {},
            r"so documents do not apply\. Leave them out, and add up rows",
        ),
        (COUNTS, {"label_names": "nothing"}, r"label_names='nothing' names labels, but .* without labels\."),
        (LIST | {"tokens": WORDS, "predicted_tokens": HALF}, {}, "has texts and ids as tokens and predicted"),
        (
            LIST | {"experts": np.ma.masked_array(CHOSEN, CHOSEN == 3)},
            {},
            r"arrays are masked\. Replace the masked experts by experts\.filled",
        ),
        # masks that are added to scores, and numbers of packed texts
        (
            LOGITS | {"attention_mask": np.array([[0.0, -1e9]])},
            {},
            "attention_mask of .* holds .*; expected 1",
        ),
        (
            LOGITS | {"attention_mask": np.array([[1, 2]])},
            {},
            "attention_mask of .* holds .*; expected 1 for",
        ),
        ([LOGITS, LOGITS | {"attention_mask": np.ones((2, 3))}], {}, "its batches have different keys; give"),
        ([LOGITS | {"input_ids": HALF[:6, None]}, LOGITS], {}, "its batches have different keys; give att"),
    ],
)
@pytest.mark.filterwarnings("ignore:There is no attention_mask")
def test_what_would_be_read_as_something_else_is_rejected(arrays, names, message):
    with pytest.raises(ValueError, match=message):
        modtf.read_routing(arrays, **names)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"activations": GATES, "top_k": 2}, "holds top_k = 2, which is not used. Give --top_k=2"),
        (LIST | {"activations": GATES}, "holds gates and experts. .* Give --experts=experts"),
        (LIST | {"attention_mask": HALF.reshape(4, 15)}, "'attention_mask' of .* is 0 for 30 of 60 tokens"),
        (LIST | {"labels": np.array(["law", "nan"])[HALF]}, "labels hold 'nan', as if they were missing"),
    ],
)
def test_what_is_not_applied_is_reported(arrays, message):
    with pytest.warns(UserWarning, match=message) as notes:
        modtf.read_routing(arrays)
    assert len(notes) == 1


def test_missing_labels_in_a_list_are_reported():
    labels: Any = ["law", float("nan")] * 30
    (layer,) = modtf.measure_activations(GATES, labels, permutations=0)
    assert any("labels hold 'nan', as if" in text for text in layer.warnings)


def test_gates_that_are_asked_for_are_read_next_to_experts(tmp_path):
    """Only without a name, experts stand in for gates that are missing."""
    np.save(tmp_path / "gates.npy", GATES)
    file = LIST | {"router_probs": GATES}
    for name in ("router_probs", str(tmp_path / "gates.npy")):
        read: Any = modtf.read_routing(file, activations=name).activations
        np.testing.assert_array_equal(read.values[0], GATES)
    with pytest.raises(ValueError, match=r"The array 'router_prob' does not exist in .* Give the right name"):
        modtf.read_routing(file, activations="router_prob")
    assert isinstance(modtf.read_routing(file).activations, Experts)


def test_weights_are_those_of_the_experts_that_are_read():
    file = LIST | {"weights": np.full(CHOSEN.shape, 0.5), "replayed": CHOSEN[:, ::-1]}
    read: Any = modtf.read_routing(file, experts="replayed").activations
    assert read.weights is None
    for names in ({}, {"experts": "replayed", "weights": "weights"}):
        read = modtf.read_routing(file, **names).activations
        np.testing.assert_array_equal(read.weights[0], file["weights"])


def test_annotations_that_change_nothing_are_silent():
    modtf.read_routing({"activations": GATES, "top_k": 2}, top_k=2)
    modtf.read_routing(LIST | {"activations": GATES}, experts="experts")
    modtf.read_routing(LIST | {"attention_mask": np.ones(TOKENS), "layer": np.full(TOKENS, 3)})


def test_tables_of_counts_need_the_number_of_experts(tmp_path):
    """An expert without any token has no row: with 8 experts, the last two are dead."""
    rows = [f"{layer},{expert},{10 + expert}" for layer in range(2) for expert in range(6)]
    (tmp_path / "a.csv").write_text("\n".join(["layer,expert,count", *rows]))
    with pytest.warns(UserWarning, match="so 6 experts are assumed, from the highest number. Give --num_e"):
        modtf.read_routing(tmp_path)
    load = np.pad(10.0 + np.arange(6), (0, 2))
    for layer in modtf.read_routing(tmp_path, num_experts=8).measure(permutations=0):
        np.testing.assert_allclose(layer.hard.use, load / load.sum())
        value = layer.hard.values["load_variation"].value
        assert value == pytest.approx(load.std() / load.mean())


@pytest.mark.filterwarnings("error")
def test_dense_layers_of_counts_are_left_out():
    """A recorder of counts writes zeros for them, as others write placeholders for tokens."""
    counts = np.array([np.bincount(row, minlength=4) for row in CHOSEN])[:, np.newaxis]
    for dense in (
        np.concatenate([0 * counts, counts, counts], axis=1),
        np.append(counts, 0 * counts, axis=1),
    ):
        used = np.flatnonzero(dense.any(axis=(0, 2))).tolist()
        routing = modtf.read_routing({"counts": dense}, top_k=2)
        layers = routing.measure()
        assert [layer.layer for layer in layers] == used
        assert any("every token has the same row, as in placeholders" in text for text in layers[0].warnings)
        assert np.sum(np.asarray(layers[0].module_tokens)) == 2 * TOKENS
        load = modtf.analyse_routing(routing, "load", permutations=2).found["load"].table
        assert load["layer"].unique().tolist() == used


def test_tables_of_counts_hold_no_negative_experts(tmp_path):
    """-1 is no expert. -2 was another expert, counted from the end."""
    (tmp_path / "a.csv").write_text("layer,expert,count\n0,0,10\n0,1,20\n0,-2,100\n")
    with pytest.raises(ValueError, match="it holds the expert -2; expected numbers from 0"):
        modtf.read_routing(tmp_path, num_experts=4)


def test_several_texts_in_a_table_are_reported(tmp_path):
    """The second text starts again at token 0, so its choices look like further choices of the first."""
    rows = [f"{token},0,{2 * text + token % 2}" for text in range(2) for token in range(9)]
    (tmp_path / "a.csv").write_text("\n".join(["token,layer,expert", *rows]))
    with pytest.warns(UserWarning, match=r"are not contiguous\. .* write a file for each"):
        modtf.read_routing(tmp_path, num_experts=4)


def test_parts_of_one_layer_are_not_layers(tmp_path):
    rows = pa.table({"indices": CHOSEN.tolist(), "scores": [[0.6, 0.4]] * TOKENS})
    for name in ("layer_0_part0", "layer_0_part1"):
        parquet.write_table(rows, tmp_path / f"{name}.parquet")
    with pytest.raises(ValueError, match="several files have the number of one layer"):
        modtf.read_routing(tmp_path, num_experts=4)


def test_a_byte_order_mark_does_not_hide_the_tokens(tmp_path):
    """Without its first column a table of tokens would be read as counts, and its weights ignored."""
    rows = [f"{token},0,{expert},0.5" for token, row in enumerate(CHOSEN.tolist()) for expert in row]
    (tmp_path / "a.csv").write_text("\n".join(["token,layer,expert,weight", *rows]), encoding="utf-8-sig")
    routing = modtf.read_routing(tmp_path, num_experts=4)
    assert isinstance(routing.activations, Experts)
    np.testing.assert_array_equal(routing.activations.experts[0], CHOSEN)


def test_a_table_of_tokens_names_its_layers_and_all_tables_have_the_same(tmp_path):
    """Layers 1 and 2 of one text are not layers 2 and 3 of another."""
    for name, layers in {"a": (1, 2), "b": (2, 3)}.items():
        rows = [f"{token},{layer},{(token + layer) % 4}" for token in range(9) for layer in layers]
        (tmp_path / f"{name}.csv").write_text("\n".join(["token,layer,expert", *rows]))
    assert modtf.read_routing(tmp_path / "a.csv", num_experts=4).names.layers == ("1", "2")
    with pytest.raises(
        ValueError, match="token 0 of document 0 has 0 rows in layer 3, but the first has 1; expected"
    ):
        modtf.read_routing(tmp_path, num_experts=4)


@pytest.mark.parametrize("has_usual", [True, False])
def test_the_factor_label_is_the_chosen_labels(has_usual):
    """Unless these are tokens or positions, which are factors already."""
    domains, usual = np.arange(TOKENS) % 3, {"labels": HALF} if has_usual else {}
    arrays = LIST | {"domain": domains, "tokens": DOCUMENTS, "positions": HALF} | usual
    factors = modtf.read_routing(arrays, labels="domain").factors
    np.testing.assert_array_equal(factors["label"], domains)
    for name in ("tokens", "positions"):
        factors = modtf.read_routing(arrays, labels=name).factors
        assert ("label" in factors) == has_usual
        assert not has_usual or (factors["label"] == HALF).all()


def test_text_tokens_are_words():
    """The texts of predicted tokens have the same numbers."""
    after = np.roll(np.where(WORDS == "cat", "zoo", WORDS), -1)
    routing = modtf.read_routing(LIST | {"tokens": WORDS, "predicted_tokens": after})
    assert routing.words is not None
    assert routing.predicted is not None
    assert [routing.words[one] for one in routing.factors["token"]] == WORDS.tolist()
    assert [routing.words[one] for one in routing.predicted] == after.tolist()


def test_ids_of_tokens_do_not_depend_on_predictions():
    """So that checkpoints with other predictions are known to have the same tokens."""
    both = [LIST | {"tokens": WORDS, "predicted_tokens": np.roll(WORDS, -1)}]
    both.append(LIST | {"tokens": WORDS, "predicted_tokens": np.array(["a", "it"])[HALF]})
    one, other = map(modtf.read_routing, both)
    np.testing.assert_array_equal(one.factors["token"], other.factors["token"])
    assert other.words == ("and", "cat", "of", "the", "a", "it")
    assert check_comparable([one, other], ["one", "other"]) == []
    assert modtf.analyse_routing(one, "saturation", against=other, permutations=2).found
    wrong = modtf.read_routing(LIST | {"tokens": np.char.add(WORDS, "s")})  # other words, the same ids
    with pytest.raises(ValueError, match="wrong and one have different texts of tokens from token 0 on"):
        check_comparable([one, wrong], ["one", "wrong"])
    with pytest.raises(ValueError, match="against and routing have different texts of tokens"):
        modtf.analyse_routing(one, "saturation", against=wrong)
