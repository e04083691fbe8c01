"""Tables with named columns: all ways to write them give the same routing; what is unclear is refused."""

# mypy: disable-error-code="union-attr,arg-type"

import re
import shutil
from pathlib import Path

import format_writers as writers
import numpy as np
import pytest

import modtf
from modtf.routing.formats.registry import Arrays

E = {"num_experts": writers.EXPERTS}


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet", "parquet.gz"])
@pytest.mark.parametrize("rows", ["token_rows", "choice_rows", "count_rows"])
def test_every_file_holds_the_same(ending, rows, tmp_path):
    some = getattr(writers, rows)()
    path = writers.written(tmp_path / f"x.{ending}", some)
    routing = modtf.read_routing(path, **E)
    found = routing.activations
    if rows == "count_rows":
        np.testing.assert_array_equal(found.counts, writers.COUNTS)
    else:
        np.testing.assert_array_equal(found.experts, writers.CHOSEN)
        np.testing.assert_allclose(found.weights, writers.WEIGHTS)
    assert routing.names.labels == ("code", "law")


def test_columns_have_other_names(tmp_path):
    """A trace of steps, layers and slots, whose other columns say nothing of tokens."""
    rows = [
        {"turn": row["document"], "phase": "prefill", "step": row["token"], "layer": row["layer"],
         "slot": row["slot"], "expert": row["expert"], "weight": row["weight"], "residency": row["time"] % 2}
        for row in writers.choice_rows()
    ]  # fmt: skip
    path = writers.written(tmp_path / "x.csv", rows)
    with pytest.raises(
        ValueError, match="a row for each layer, but no column `token` that numbers the tokens"
    ):
        modtf.read_routing(path, **E)
    with pytest.raises(ValueError, match="expected the same number for all"):  # documents are one text
        modtf.read_routing(path, columns={"token": "step"}, **E)
    routing = modtf.read_routing(path, columns={"token": "step", "document": "turn"}, **E)
    np.testing.assert_array_equal(routing.activations.experts, writers.CHOSEN)
    np.testing.assert_array_equal(routing.documents, writers.DOCUMENTS)
    with pytest.raises(ValueError, match=r"has the columns turn, phase, .*; expected a column 'block'"):
        modtf.read_routing(path, columns={"layer": "block"}, **E)
    np.savez(tmp_path / "x.npz", **writers.ARRAYS)
    with pytest.raises(ValueError, match="is read as npz, but columns name those of a table"):
        modtf.read_routing(tmp_path / "x.npz", columns={"token": "step"})


def test_the_order_of_rows_is_free():
    """Slots, tokens and documents order the choices. Documents keep the order in which they come first."""
    rows = writers.choice_rows()
    mixed = sorted(rows, key=lambda row: (row["document"], row["slot"], row["layer"], -row["token"]))
    np.testing.assert_array_equal(modtf.read_routing(mixed, **E).activations.experts, writers.CHOSEN)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    assert Arrays(columns).format == "table"
    np.testing.assert_array_equal(modtf.read_routing(columns, **E).activations.experts, writers.CHOSEN)


def change(**columns):
    return lambda rows: [row | columns for row in rows]


@pytest.mark.parametrize(
    ("rows", "changed", "words"),
    [
        ("choice_rows", lambda rows: [row | {"token": 2 * row["token"]} for row in rows], "have gaps"),
        ("choice_rows", change(document=0), "expected the same number for all"),
        ("choice_rows", lambda rows: [r | {"label": str(r["time"])} for r in rows], "differ in 'labels'"),
        ("choice_rows", lambda rows: [row | {"slot": 0} for row in rows], "the slots of a token and layer"),
        ("choice_rows", change(expert=0.5), "experts of type float64"),
        ("choice_rows", change(experts=1), "mean the same; name one of them in columns"),
        ("count_rows", lambda rows: [*rows, rows[3]], "counts an expert of a layer twice"),
        ("count_rows", lambda rows: rows[writers.EXPERTS :], "a document lacks a layer"),
        ("count_rows", lambda rows: [r | {"label": str(r["expert"])} for r in rows], "differ in its label"),
        ("count_rows", change(count=-1), "counts hold -1"),
        ("token_rows", lambda rows: rows[:2], "its 2 rows hold lists"),
    ],
)  # fmt: skip
def test_unclear_tables(rows, changed, words, tmp_path):
    with pytest.raises((ValueError, UserWarning), match=re.escape(words)):
        modtf.read_routing(changed(getattr(writers, rows)()), **E)


@pytest.mark.filterwarnings("error")
def test_files_of_a_folder(tmp_path):
    """Files are documents, or hold whole documents."""
    rows = writers.token_rows()
    for number in range(3):
        some = [row for row in rows if row["document"] == number]
        writers.written(tmp_path / f"part{number}.parquet", some)
    np.testing.assert_array_equal(modtf.read_routing(tmp_path, **E).documents, writers.DOCUMENTS)
    shutil.copy(tmp_path / "part0.parquet", tmp_path / "part3.parquet")
    with pytest.raises(ValueError, match="two of its files name the same document"):
        modtf.read_routing(tmp_path, **E)


def test_one_choice_needs_no_list(tmp_path):
    path = writers.written(tmp_path / "x.csv", [{"expert": e} for e in writers.CHOSEN[0, :, 0].tolist()])
    np.testing.assert_array_equal(
        modtf.read_routing(path, **E).activations.experts, writers.CHOSEN[:1, :, :1]
    )


def test_layers_of_flame_may_be_compressed_but_not_missing(tmp_path):
    folder = writers.flame(tmp_path)
    layer = folder / "layer_10.parquet"
    writers.written(folder / "layer_10.parquet.gz", parquet_rows(layer))
    layer.unlink()
    routing = modtf.read_routing(folder, **E)
    np.testing.assert_array_equal(routing.activations.experts, writers.CHOSEN)
    (folder / "layer_10.parquet.gz").rename(folder / "layer_10.parquet.zst")
    with pytest.raises(ValueError, match=r"layer_10\.parquet\.zst is named as a layer; expected"):
        modtf.read_routing(folder, **E)


def parquet_rows(path):
    from pyarrow import parquet

    return parquet.read_table(path).to_pylist()


def test_the_lines_of_the_guide_flatten_nested_layouts():
    text = (Path(__file__).parents[4] / "docs" / "formats.md").read_text(encoding="utf-8")
    names: dict = {}
    exec(text[text.index("def atlas_rows") :].partition("```")[0], names)
    traces, records, runs = [], [], []
    for number, (experts, weights, tokens) in enumerate(writers.documents()):
        where, label = (
            [(t, n) for t in range(len(tokens)) for n in range(writers.LAYERS)],
            writers.DOMAINS[number],
        )
        activations = [
            {"layer": n, "token_idx": t, "expert_idx": int(e), "gate_weight": float(w)}
            for t, n in where for e, w in zip(experts[t, n], weights[t, n], strict=True)
        ]  # fmt: skip
        traces.append({"domain": label, "activations": activations})
        for t in range(len(tokens)):
            chosen = [(experts[t, n].tolist(), weights[t, n].tolist()) for n in range(writers.LAYERS)]
            layers = [
                {"layer": n, "topk_experts": some, "topk_probs": of_some}
                for n, (some, of_some) in enumerate(chosen)
            ]
            of_token = {"prompt_id": str(number), "generated_token_index": t, "domain": label}
            records.append(of_token | {"router_layers": layers})
        layers = [{"layer": n, "counts": one.tolist()} for n, one in enumerate(writers.COUNTS[number])]
        runs.append({"label": str(number), "layers": layers})
    for name, content in (("atlas_rows", traces), ("router_layer_rows", records)):
        routing = modtf.read_routing(list(names[name](content)), **E)
        np.testing.assert_array_equal(routing.activations.experts, writers.CHOSEN)
        np.testing.assert_array_equal(routing.labels, np.array([0, 1, 0])[writers.DOCUMENTS])
    counts = modtf.read_routing(list(names["layer_count_rows"](runs)), **E).activations.counts
    np.testing.assert_array_equal(counts, writers.COUNTS)


def csv_routing(tmp_path, tokens, line="{},{}", header="tokens,experts"):
    lines = [line.format(token, place % 3) for place, token in enumerate(tokens)]
    (tmp_path / "x.csv").write_text("\n".join(["# a comment", "", header, *lines, ""]))
    return modtf.read_routing(tmp_path / "x.csv", num_experts=3)


@pytest.mark.parametrize(
    "tokens", [["##ing", "#", "a"], [" the", "the", " "], ["[CLS]", "a", "[SEP]"], ["[CLS]", "[3]", "[a"]]
)
def test_texts_of_a_csv_stay_as_they_are(tokens, tmp_path):
    """No row is a comment, no space is lost, and brackets alone make no list."""
    routing = csv_routing(tmp_path, 4 * tokens)
    assert routing.words is not None
    assert [routing.words[one] for one in routing.factors["token"]] == 4 * tokens


def test_spaces_around_values_of_a_csv(tmp_path):
    """Numbers may have them. Behind every comma, also of the header, they are no part of the values."""
    routing = csv_routing(tmp_path, ["a", " b"] * 6, line="{}, {} ", header=" tokens ,experts")
    assert routing.words == (" b", "a")
    routing = csv_routing(tmp_path, "ab" * 6, line='{}, "[{}, 2]"', header="tokens, experts")
    assert routing.activations.shape == (1, 12, 3)


@pytest.mark.parametrize("text", ["", "# a comment\n", "token,layer,expert\n\n"])
def test_a_csv_without_rows(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=r"x\.csv cannot be read as table: the file has no rows"):
        modtf.read_routing(tmp_path / "x.csv", **E)


@pytest.mark.parametrize(("texts", "labels"), [("07,7", 2), ("007, 7", 2), ("07,7, 7", 2), ("7, 7", 1)])
def test_labels_that_are_one_number_but_two_texts_stay_apart(texts, labels, tmp_path):
    names = texts.split(",")
    rows = [f"{names[n % len(names)]},{'0' * (n % 2)}{n % 4}" for n in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["label,expert", *rows]))
    routing = modtf.read_routing(tmp_path / "x.csv", **E)
    assert len(np.unique(routing.labels)) == labels
    assert routing.activations.experts.ravel().tolist() == [n % 4 for n in range(60)]
