"""Factors in the report: those of the file side by side, and the tokens of experts."""

import numpy as np
import pandas as pd
import pytest
from flag_values import given

from modtf.launch import measure
from modtf.routing import Names, Routing
from modtf.routing import reading as module
from modtf.routing.measuring import Factor, measure_activations
from modtf.routing.measuring.compare import Run, compare_runs
from modtf.routing.measuring.layers import layers_of
from modtf.routing.measuring.summarise import Options
from modtf.routing.report.compared import draw_comparison
from modtf.routing.report.sections import draw_factors, top_tokens

TOKENS = 4000


@pytest.fixture(scope="module")
def arrays():
    """Two layers of eight experts: the first knows tokens, the second domains."""
    generator = np.random.default_rng(0)
    documents = np.arange(TOKENS) // 20
    labels = generator.integers(4, size=200)[documents]
    tokens = generator.integers(40, size=TOKENS)
    experts = np.stack([tokens % 8, 2 * labels + generator.integers(2, size=TOKENS)])[..., np.newaxis]
    positions = np.arange(TOKENS) % 20 // 5
    names = np.array([f"<word {number}>" for number in range(40)])
    return {
        "experts": experts, "num_experts": 8, "labels": labels, "tokens": tokens, "positions": positions,
        "documents": documents, "token_names": names,
    }  # fmt: skip


def run(tmp_path, arrays, *flags):
    np.savez(tmp_path / "x.npz", **arrays)
    measure.main(
        given(
            measure,
            f"--activations={tmp_path / 'x.npz'}",
            f"--out={tmp_path}",
            "--permutations=3",
            "--analyses=none",
            *flags,
        )
    )
    return (tmp_path / "measures.html").read_text()


def test_factors_side_by_side_and_top_tokens(arrays, tmp_path):
    text = run(tmp_path, arrays)
    factors = pd.read_csv(tmp_path / "factors.csv").set_index(["layer", "factor"])
    assert list(factors.columns) == ["marginal", "marginal_chance", "beyond", "beyond_chance"]
    assert factors["marginal"].idxmax() == (0, "token")
    told = factors.index[factors["marginal"] > 0.1].tolist()
    assert told == factors.index[factors["beyond"] > 0.1].tolist() == [(0, "token"), (1, "label")]
    tokens = pd.read_csv(tmp_path / "tokens.csv")
    assert len(tokens) == 2 * 8
    first = tokens[tokens["layer"] == 0].set_index("expert")
    assert first["bits"].min() == pytest.approx(3, abs=0.15)
    assert {word.split(" ")[1][:-2] for word in first.loc[3, "top_tokens"].split(", ")} == {
        "3", "11", "19", "27", "35",
    }  # fmt: skip
    assert tokens[tokens["layer"] == 1]["bits"].abs().max() < 0.05
    assert "What routing follows" in text
    assert "&lt;word 3&gt;" in text


def test_a_note_says_how_many_tokens_are_used(arrays, tmp_path, monkeypatch):
    for file in ("measuring.factors", "report.sections"):
        monkeypatch.setattr(f"modtf.routing.{file}.MOST_TOKENS", 1000)
    assert run(tmp_path, arrays).count("1000 of 4000 tokens are used, drawn from 50 documents.") == 2
    without = {name: values for name, values in arrays.items() if name != "documents"}
    assert run(tmp_path, without).count("1000 of 4000 tokens are used, drawn at random.") == 2


def test_tokens_beyond_the_names_are_shown_as_ids(arrays):
    """A model's vocabulary may have more ids than the tokenizer has texts."""
    short = {**arrays, "token_names": arrays["token_names"][:39]}
    routing = Routing.read(short)
    table = top_tokens(routing, 0)
    shown = " ".join(table["top_tokens"])
    assert "'<word 38>'" in shown
    assert "'39'" in shown
    assert "39" in (Routing.read(short, labels="tokens").names.labels or ())


def test_topics_of_documents_are_no_words_of_experts(tmp_path):
    """Documents have tokens and experts of their own, at random, so no expert knows tokens."""
    generator = np.random.default_rng(0)
    documents = np.arange(TOKENS) // 100

    def by_document(number):
        shares = generator.dirichlet(np.full(number, 0.3), size=40)[documents].cumsum(axis=1)
        return (generator.random((TOKENS, 1)) > shares).sum(axis=1).clip(0, number - 1)

    experts, tokens = by_document(4)[:, np.newaxis], by_document(60)
    labels = {"labels": documents % 2, "documents": documents, "tokens": tokens}
    bits = []
    for given_documents in (documents, np.arange(TOKENS)):
        arrays = {"experts": experts, "num_experts": 4, **labels, "documents": given_documents}
        run(tmp_path, arrays)
        bits.append(pd.read_csv(tmp_path / "tokens.csv")["bits"].mean())
    assert abs(bits[0]) < 0.03
    assert bits[1] > 0.05


def test_placeholders_are_left_out_and_layers_keep_their_numbers(arrays, tmp_path):
    placeholder = np.zeros_like(arrays["experts"][:1])
    run(tmp_path, arrays | {"experts": np.concatenate([placeholder, arrays["experts"]])})
    assert set(pd.read_csv(tmp_path / "tokens.csv")["layer"]) == {1, 2}


def test_without_labels_tokens_are_the_labels(arrays, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FREQUENT", 10)
    text = run(tmp_path, {name: values for name, values in arrays.items() if name != "labels"})
    counts = np.bincount(arrays["tokens"])
    found = pd.read_csv(tmp_path / "activation.csv")["label_name"].drop_duplicates().tolist()
    assert found == [*arrays["token_names"][np.argsort(-counts, kind="stable")[:10]], "other tokens"]
    assert "11 labels" in text
    assert set(pd.read_csv(tmp_path / "factors.csv")["factor"]) == {"token", "position"}


def test_labels_of_another_file_are_a_factor(arrays, tmp_path):
    np.savez(tmp_path / "x.npz", **{**arrays, "labels": arrays["labels"] % 2})
    np.save(tmp_path / "y.npy", arrays["labels"])
    routing = Routing.read(tmp_path / "x.npz", labels=str(tmp_path / "y.npy"))
    np.testing.assert_array_equal(routing.factors["label"], arrays["labels"])
    assert list(Routing.read(tmp_path / "x.npz", labels="positions").factors) == [
        "token",
        "position",
        "label",
    ]


def test_names_are_those_of_the_labels_that_they_stand_beside(arrays, tmp_path):
    """Names of domains are not used for positions or for labels of another file."""
    domains = ("code", "law", "news", "verse")
    np.savez(tmp_path / "x.npz", **arrays, label_names=np.array(domains))
    np.save(tmp_path / "y.npy", arrays["positions"])
    for labels, names in (("labels", domains), ("positions", None), (str(tmp_path / "y.npy"), None)):
        assert Routing.read(tmp_path / "x.npz", labels=labels).names.labels == names
    asked = Routing.read(tmp_path / "x.npz", labels="positions", label_names="label_names")
    assert asked.names.labels == domains


def test_a_file_of_gates_and_labels_alone_has_neither(arrays, tmp_path):
    gates = np.eye(8)[arrays["experts"][..., 0]]
    text = run(tmp_path, {"activations": gates, "labels": arrays["labels"]})
    assert "What routing follows" not in text
    assert "Tokens of experts" not in text
    assert not (tmp_path / "factors.csv").exists()


def test_curves_stand_above_their_layers_if_a_placeholder_is_left_out():
    rows = [Factor(layer, name, 0.1 * layer, 0.01, 0.2, 0.01) for layer in (1, 3) for name in ("a", "b")]
    axes = draw_factors(rows, Names()).figure.axes[0]
    labels = dict(zip(axes.get_xticks(), (text.get_text() for text in axes.get_xticklabels()), strict=True))
    x, y = np.array(axes.lines[0].get_data())
    assert [labels[one] for one in x] == ["1", "3"]
    assert y.tolist() == pytest.approx([0.1, 0.3])


def test_models_with_different_placeholders_are_compared_in_the_layers_that_both_have():
    generator = np.random.default_rng(0)
    labels, gates = np.arange(600) % 3, np.eye(3)[generator.integers(3, size=(3, 600))]
    first, second = gates.copy(), gates.copy()
    first[0], second[2] = np.eye(3)[0], np.eye(3)[0]
    runs = []
    for name, some in (("a", first), ("b", second)):
        runs.append(Run(name, layers_of(some), measure_activations(some, labels, permutations=9)))
    compared = list(compare_runs(runs, labels, None, Options()))
    axes = draw_comparison(runs, compared, Names()).figure.axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1"]
    assert all(np.size(line.get_xdata()) == 1 for line in axes.lines)
