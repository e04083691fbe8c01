"""`modtf measure`: from files to a page, and one clear line where they are not what they should be."""

import io
import re
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pandas as pd
import pytest
from flag_values import given
from processes import ROOT, python

import modtf
from modtf.launch import measure as module
from modtf.routing import EXAMPLE, Names, Routing, write_routing_report
from modtf.routing.routing import Arrays

TOKENS, MODULES, LABELS = 400, 4, 3
REPORT = "ünï çødé report"
NAMES = ("letter", "digit", "space")

WITHOUT_TENSORFLOW = """
import sys
from modtf.launch.measure import command
sys.argv = ["modtf measure", *sys.argv[1:]]
command()
assert not {name.partition(".")[0] for name in sys.modules} & {"tensorflow", "keras", "jax"}
"""


@pytest.fixture(scope="module")
def arrays():
    generator = np.random.default_rng(0)
    labels = generator.integers(LABELS, size=TOKENS)
    logits = 2.0 * np.eye(MODULES)[labels] + generator.normal(size=(2, TOKENS, MODULES))
    gates = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return {"activations": gates.astype(np.float32), "labels": labels, "logits": logits}


def measure(*arguments):
    module.main(given(module, "--permutations=5", *arguments))


def written(folder):
    return pd.read_csv(folder / "measures.csv")


def saved(path, arrays, **others):
    np.savez(path, **{"activations": arrays["activations"], "labels": arrays["labels"]} | others)
    return path


def test_the_command(arrays, tmp_path):
    path = saved(tmp_path / "x.npz", arrays, label_names=np.array(NAMES))
    flags = f"--activations={path}", f"--out={tmp_path / REPORT}", "--permutations=5"
    done = python("-W", "error", "-c", WITHOUT_TENSORFLOW, *flags, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "effective experts: higher" in done.stdout
    assert f"Wrote {tmp_path / REPORT / 'measures.html'}" in done.stdout
    assert done.stderr == "", "a bar in a file"
    expected = modtf.measure_activations(arrays["activations"], arrays["labels"], permutations=5)
    frame = pd.DataFrame([row for layer in expected for row in layer.to_rows()])
    pd.testing.assert_frame_equal(written(tmp_path / REPORT), frame)
    assert "Warning: There are no documents" in done.stdout
    assert "Give an array `documents`, or --documents=NAME" in done.stdout
    assert set(NAMES) >= set(pd.read_csv(tmp_path / REPORT / "experts.csv")["top_label_name"])


def test_the_example_ships_with_the_package_and_needs_no_file(tmp_path):
    done = python("-c", WITHOUT_TENSORFLOW, "--example", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert EXAMPLE.stat().st_size < 200_000
    shown = (ROOT / "README.md").read_text("utf-8").split("modtf measure --example")[1].split("```")[1]
    assert [line for line in shown.strip().splitlines() if line not in done.stdout] == []
    pages = tmp_path / module.EXAMPLE_OUT / "measures.html", ROOT / "docs" / "example_report.html"
    committed, again = (re.sub('base64,[^"]*', "", path.read_text("utf-8")) for path in pages)
    assert committed == again, "write docs/example_report.html again: modtf measure --example --out=FOLDER"
    frame = written(tmp_path / module.EXAMPLE_OUT)
    assert frame["layer_name"].unique().tolist() == ["layer1", "layer2"]
    routing: Any = modtf.read_routing(EXAMPLE)
    assert routing.names.labels[7] == "language 8"
    assert len(np.unique(routing.documents)) == 160
    assert set(map(len, routing.words)) == {4}
    with pytest.raises(ValueError, match="brings its own routing"):
        measure("--example", "--activations=x.npz")


def as_npz(folder, arrays):
    return [f"--activations={saved(folder / 'x.npz', arrays)}"]


def as_compressed(folder, arrays):
    np.savez_compressed(folder / "x.npz", activations=arrays["activations"], labels=arrays["labels"])
    return [f"--activations={folder / 'x.npz'}"]


def as_folder(folder, arrays):
    for name in ("activations", "labels"):
        np.save(folder / f"{name}.npy", arrays[name])
    return [f"--activations={folder}"]


def as_pair(folder, arrays):
    np.save(folder / "a.npy", np.asfortranarray(arrays["activations"]))
    np.save(folder / "l.npy", arrays["labels"].astype(np.uint8))
    return [f"--activations={folder / 'a.npy'}", f"--labels={folder / 'l.npy'}"]


def as_bfloat16(folder, arrays):
    """Rounded first, so that both are the same; NumPy's file says only that these are two bytes each."""
    low = arrays["activations"].astype(ml_dtypes.bfloat16)
    arrays["activations"][:] = low.astype(np.float32)
    return [f"--activations={saved(folder / 'x.npz', arrays, activations=low)}"]


def as_other_names(folder, arrays):
    np.savez(folder / "x.npz", router_probs=arrays["activations"], domain=arrays["labels"])
    return [f"--activations={folder / 'x.npz'}", "--array=router_probs", "--labels=domain"]


@pytest.mark.parametrize("save", [as_npz, as_compressed, as_folder, as_pair, as_other_names, as_bfloat16])
def test_the_same_from_any_files(save, arrays, tmp_path, monkeypatch):
    files, found = save(tmp_path, arrays), []
    written = "modtf.routing.write_routing_report"
    monkeypatch.setattr(written, lambda layers, *_, **__: found.extend(layers))
    measure(*files, "--permutations=0", "--analyses=none", f"--out={tmp_path / 'report'}")
    expected = modtf.measure_activations(arrays["activations"], arrays["labels"], permutations=0)
    np.testing.assert_equal([layer.mass.activation for layer in found], [e.mass.activation for e in expected])
    ours, others = ([layer.hard.values["alignment"].low for layer in one] for one in (found, expected))
    assert ours == others


def test_the_options_reach_the_measures(arrays, tmp_path):
    path = saved(
        tmp_path / "x.npz", arrays, activations=arrays["logits"], documents=np.arange(TOKENS) // 10,
        layer_names=np.array(["first", "second"]),
    )  # fmt: skip
    measure(
        f"--activations={path}", f"--out={tmp_path}", "--logits", "--top_k=2", "--label_probs=0.5,0.25,0.25",
        "--confidence=0.8", "--seed=3", "--analyses=none",
    )  # fmt: skip
    expected = modtf.measure_activations(
        arrays["logits"], arrays["labels"], documents=np.arange(TOKENS) // 10, from_logits=True, top_k=2,
        label_probs=[0.5, 0.25, 0.25], confidence=0.8, seed=3, permutations=5,
    )  # fmt: skip
    frame = pd.DataFrame([row for layer in expected for row in layer.to_rows()])
    found = written(tmp_path)
    pd.testing.assert_frame_equal(found.drop(columns="layer_name"), frame)
    assert list(found["layer_name"].unique()) == ["first", "second"]
    text = (tmp_path / "measures.html").read_text()
    assert (
        "Logits, the 2 largest of each token. Frequencies of labels: 0 = 0.5, 1 = 0.25, 2 = 0.25. Interv"
        in text
    )
    about = "x.npz holds the routing of 2 layers, 4 experts per layer, 400 tokens, 40 documents, 3 labels."
    page = write_routing_report(
        expected, tmp_path / "b", Names(None, ["first", "second"]), about=about, source="x.npz"
    )
    assert page.read_text() == text


def test_arrays_are_mapped_and_not_read(arrays, tmp_path):
    stored = Arrays(saved(tmp_path / "x.npz", arrays))
    assert isinstance(stored["activations"], np.memmap)
    np.testing.assert_array_equal(stored["activations"], arrays["activations"])
    assert sorted(stored) == ["activations", "labels"]


#: flags, arrays, and what is said against them
BAD = [
    ("--label_probs=often", {}, "--label_probs=often is not valid; expected observed, uniform"),
    ("--label_probs=0.5,0.5,0.5", {}, "label_probs must hold .* sums to 1.5"),
    ("--num_experts=8", {}, "--num_experts applies to chosen experts, but the file holds gates"),
    ("--permutations=1000000000", {}, "--permutations=1000000000 is not valid; expected an integer"),
    ("--labels=domains", {}, "The array 'domains' does not exist in .*, which has activations, labels"),
    ("--documents=pages", {}, "array 'pages' does not exist"),
    ("--labels=absent.npy", {}, "absent.npy does not exist"),
    ("--activations=absent.npz", {}, r"absent.npz does not exist. Expected a file or a folder"),
    ("", {"labels": np.array([{}] * TOKENS)}, "'labels' of .* cannot be read: it holds Python objects"),
    ("", {"activations": np.full((TOKENS, 4), "x")}, "is of type <U1; expected numbers"),
    ("", {"label_names": np.array(["a", "b"])}, "labels go up to 2, but there are 2 label_names"),
    (
        "",
        {"labels": np.full(TOKENS, "a"), "label_names": np.array(["a"])},
        "labels are names already. Leave out label_names",
    ),
    ("", {"layer_names": np.array(["a"])}, "There are 1 layer_names; expected 2"),
    (
        "",
        {"activations": np.ones((TOKENS, 4))},
        "token 0 .*with sum 4: gates must be probabilities .* If these are logits give --logits",
    ),
]


@pytest.mark.parametrize(("argument", "others", "words"), BAD)
def test_bad_input_is_refused_before_anything_is_written(argument, others, words, arrays, tmp_path):
    path = saved(tmp_path / "x.npz", arrays, **others)
    with pytest.raises(ValueError, match=words):
        measure(f"--activations={path}", f"--out={tmp_path / 'report'}", *argument.split())
    assert not (tmp_path / "report").exists()


@pytest.mark.parametrize(
    ("way", "words"),
    [
        (zipfile.ZIP_STORED, r"'activations' of .*x\.npz cannot be read"),
        (zipfile.ZIP_DEFLATED, r"x\.npz cannot be read: Unable to allocate 7\.28 TiB"),
    ],
)
def test_a_header_that_claims_more_numbers_than_there_are(way, words, tmp_path):
    header = io.BytesIO()
    claimed = {"descr": "<f8", "fortran_order": False, "shape": (10**11, 10)}
    np.lib.format.write_array_header_1_0(header, claimed)
    with zipfile.ZipFile(tmp_path / "x.npz", "w", way) as archive:
        archive.writestr("activations.npy", header.getvalue() + bytes(64))
    with pytest.raises(ValueError, match=words):
        Routing.read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("argument", "words"),
    [("--shared=0", "Give --num_experts=E"), ("--num_experts=6 --shared=a", "--shared=a is not valid")],
)
def test_experts_need_their_number(argument, words, tmp_path):
    np.savez(tmp_path / "x.npz", experts=np.arange(80).reshape(40, 2) % 6)
    with pytest.raises(ValueError, match=words):
        measure(f"--activations={tmp_path / 'x.npz'}", f"--out={tmp_path / 'report'}", *argument.split())


def test_files_of_an_earlier_report_go(arrays, tmp_path):
    """They would be read as parts of the new one. Files of others stay."""
    first = saved(tmp_path / "x.npz", arrays, tokens=np.arange(TOKENS) % 7)
    np.savez(tmp_path / "y.npz", activations=arrays["activations"])

    def files(folder):
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    measure(f"--activations={first}", f"--out={tmp_path / 'report'}", "--analyses=load")
    assert {"tokens.csv", "factors.csv", "labels.png", "analyses/load.csv"} <= files(tmp_path / "report")
    (tmp_path / "report" / "mine.csv").write_text("mine")
    (tmp_path / "report" / "analyses" / "mine.csv").write_text("mine")
    for out in ("report", "other"):
        measure(f"--activations={tmp_path / 'y.npz'}", f"--out={tmp_path / out}", "--analyses=none")
    assert files(tmp_path / "report") == files(tmp_path / "other") | {"mine.csv", "analyses/mine.csv"}
