"""`modtf measure` with several files: a page of each, and one that compares them."""

import re

import numpy as np
import pandas as pd
import pytest
from flag_values import given

from modtf.launch import measure
from modtf.routing.measuring import Experts, compare_activations

TOKENS = 600


@pytest.fixture
def files(tmp_path):
    """Two checkpoints; the second knows labels better."""
    generator = np.random.default_rng(0)
    labels = generator.integers(3, size=TOKENS)
    found = {}
    for name, strength in (("early", 1.0), ("late", 3.0)):
        logits = generator.normal(size=(2, TOKENS, 6)) + strength * np.eye(3, 6)[labels]
        found[name] = {
            "experts": np.argsort(-logits, axis=-1)[..., :2], "num_experts": 6, "labels": labels,
            "documents": np.arange(TOKENS) // 10, "tokens": np.arange(TOKENS) % 7,
        }  # fmt: skip
    return found


def run(tmp_path, files, *flags):
    paths = [tmp_path / f"{name}.npz" for name in files]
    for path, arrays in zip(paths, files.values(), strict=True):
        np.savez(path, **arrays)
    flags = (*(f"--activations={path}" for path in paths), f"--out={tmp_path / 'out'}", *flags)
    measure.main(given(measure, "--permutations=20", "--analyses=none", *flags))
    return tmp_path / "out"


def test_a_page_of_each_and_one_of_both(files, tmp_path, capsys):
    out = run(tmp_path, files, "--analyses=saturation")
    printed = capsys.readouterr().out
    verdict = re.findall("<li>(.*?)</li>", (out / "comparison.html").read_text())[:2]
    assert printed.splitlines()[-2:] == [re.sub("<.*?>", "", text) for text in verdict]
    largest = [abs(float(one)) for one in re.findall(r"^\d +late +([+-][\d.]+) \[", printed, re.MULTILINE)]
    assert len(largest) == 2
    assert largest == sorted(largest, reverse=True)
    names = {path.name for path in out.iterdir()}
    assert names == {
        "comparison.html", "comparison.csv", "matched.csv", "comparison.png", "saturation.csv",
        "saturation.png", "early", "late", ".written",
    }  # fmt: skip
    text = (out / "comparison.html").read_text()
    for name in files:
        assert (out / name / "measures.html").exists()
        assert f'href="{name}/measures.html"' in text
    assert "late compared with early: " in text
    table = pd.read_csv(out / "comparison.csv").set_index(["layer", "by", "measure"])
    assert set(table["run"]) == {"late"}
    assert table.loc[(0, "hard", "adjusted_mutual_information"), "low"] > 0.1
    pages = [pd.read_csv(out / name / "measures.csv").set_index(["layer", "by", "measure"]) for name in files]
    change = pages[1]["value"] - pages[0]["value"]
    np.testing.assert_allclose(
        table["value"].drop("shared_routing", level=2).sort_index(), change.sort_index()
    )
    early, late = files.values()
    runs = {name: Experts(arrays["experts"], 6) for name, arrays in files.items()}
    expected = compare_activations(runs, early["labels"], documents=late["documents"])
    shared = table["value"].xs("shared_routing", level="measure")
    assert shared.tolist() == [one.shared.value for one in expected]
    saturated = pd.read_csv(out / "saturation.csv").set_index(["run", "layer"])["value"]
    both = zip(early["experts"], late["experts"], strict=True)
    agree = [(a[:, :, np.newaxis] == b[:, np.newaxis]).any(axis=2).mean() for a, b in both]
    assert saturated["early"].tolist() == pytest.approx(agree)
    assert set(saturated.index.get_level_values("run")) == {"early"}
    assert "the last of the files" in text
    matched = pd.read_csv(out / "matched.csv")
    assert matched["matched"].tolist() == [number for one in expected for number in one.experts]


def test_a_report_replaces_a_comparison(files, tmp_path):
    out = run(tmp_path, files, "--permutations=0", "--analyses=saturation")
    run(tmp_path, {"late": files["late"]}, "--permutations=0")
    names = {path.name for path in out.iterdir()}
    assert "measures.html" in names
    assert not {"comparison.html", "comparison.csv", "matched.csv", "saturation.csv"} & names


def test_layers_with_different_names_are_named(files, tmp_path, capsys):
    """They are paired by position, which is wrong if one file lacks a layer of the other."""
    words = "early.npz: Layers are paired by position, but 2 of 2 pairs have different names, such as "
    files["early"]["layer_names"], files["late"]["layer_names"] = np.array(["b", "c"]), np.array(["c", "d"])
    page = run(tmp_path, files, "--permutations=0") / "comparison.html"
    assert capsys.readouterr().out.count(words) == 1
    assert page.read_text().count(words) == 1
    for names in (["b", "c"], None):
        files["late"] |= {"layer_names": np.array(names)} if names else {}
        if names is None:
            del files["late"]["layer_names"]
        page = run(tmp_path, files, "--permutations=0") / "comparison.html"
        assert "by position" not in capsys.readouterr().out + page.read_text()


def test_without_labels_load_is_compared(files, tmp_path):
    bare = {name: {n: arrays[n] for n in ("experts", "num_experts")} for name, arrays in files.items()}
    out = run(tmp_path, bare, "--permutations=0")
    table = pd.read_csv(out / "comparison.csv").set_index(["layer", "by", "measure"])
    pages = [pd.read_csv(out / name / "measures.csv").set_index(["layer", "by", "measure"]) for name in files]
    assert "adjusted_mutual_information" not in pages[0].index.get_level_values("measure")
    note = "There are no documents. 64 stretches of consecutive tokens stand for them."
    assert note in (out / "comparison.html").read_text()
    key = (1, "hard", "effective_experts")
    assert table.loc[key, "value"] == pytest.approx(pages[1].loc[key, "value"] - pages[0].loc[key, "value"])
    bare["late"]["experts"] = bare["late"]["experts"][:, 1:]
    with pytest.raises(
        ValueError, match=r"late\.npz has 599 tokens, but .*early\.npz has 600; expected the same"
    ):
        run(tmp_path, bare)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (
            "labels",
            lambda values: values[::-1],
            "late.npz and .*early.npz have different labels; expected the same tok",
        ),
        ("tokens", lambda values: values + 1, "have different tokens"),
        ("documents", lambda values: values // 2, "have different documents"),
        ("documents", lambda values: np.char.zfill(values.astype("U2"), 2), "different documents"),
        (
            "experts",
            lambda values: values[:1],
            "late.npz has 1 layers, but .*early.npz has 2; expected the same",
        ),
    ],
)
def test_other_tokens_are_refused_before_anything_is_written(name, change, words, files, tmp_path):
    files["late"][name] = change(files["late"][name])
    with pytest.raises(ValueError, match=words):
        run(tmp_path, files)
    assert not (tmp_path / "out").exists()


def test_files_of_one_name_are_called_by_their_folders():
    assert measure.run_names(["a/x.npz", "b/x.npz"]) == ["a_x", "b_x"]
    with pytest.raises(
        ValueError, match="--activations: the files have the names a_x, a_x; expected different names"
    ):
        measure.run_names(["a/x.npz", "a/x.npz"])


def test_a_folder_has_its_whole_name(tmp_path):
    folders = [tmp_path / "qwen-1.5", tmp_path / "qwen-1.7"]
    for folder in folders:
        folder.mkdir()
    assert measure.run_names(list(map(str, folders))) == ["qwen-1.5", "qwen-1.7"]


@pytest.mark.parametrize(
    ("names", "largest"),
    [
        (["step1000", "step10000", "step2000"], "step10000"),  # the order of ls
        (["step1000", "step2000", "step10000"], None),
        (["olmoe", "mixtral8"], None),
    ],
)
def test_the_last_checkpoint_has_the_largest_number(names, largest):
    assert (f"although {largest} has a larger number" in measure.out_of_order(names)) == (largest is not None)
