"""The examples of measuring a model run as they stand, and show what they are there to show."""

import re
from pathlib import Path

import pytest
from processes import ROOT, succeeds

FOLDER = ROOT / "examples" / "measure"


def run(name: str) -> str:
    """Return what the example prints, with single spaces."""
    printed = succeeds(FOLDER / name, env={"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"})
    return re.sub(" +", " ", printed)


def information(printed: str) -> list[tuple[float, float]]:
    """Return the adjusted mutual information of every layer, by gate mass and by hard assignment."""
    number = r"(-?[\d.]+) (?:\[.*?\]|\(within chance\)) <\s[\d.]+"
    found = re.findall(rf"^\S+ {number} {number} ", printed, re.MULTILINE)
    assert found, printed
    return [(float(mass), float(hard)) for mass, hard in found]


@pytest.mark.parametrize("path", sorted(FOLDER.parent.glob("*/*.py")), ids=lambda path: path.stem)
def test_they_are_short(path: Path) -> None:
    lines = {"images": 220, "my_corruptions": 100}.get(path.stem, 80)
    assert len(path.read_text().splitlines()) < lines


def test_numpy() -> None:
    printed = run("numpy_example.py")
    ((mass, hard),) = information(printed)
    assert 0.1 < hard < 0.5 < mass < 1.0  # the two tell different stories
    assert "Expert 7 received fewer than 30 tokens" in printed
    assert re.search(r"expert 7: \d\d? tokens, \d+% of label 0, by chance", printed)


@pytest.mark.slow
def test_jax() -> None:
    pytest.importorskip("jax")
    printed = run("jax_example.py")
    before, after = map(float, re.findall(r"alignment ([\d.]+):", printed))
    assert before > 0.7
    assert after < 0.4
    first, last = map(float, re.findall(r"loss (\S+) before training, (\S+) after", printed)[0])
    assert last < 0.01 * first


@pytest.mark.slow
def test_hugging_face() -> None:
    pytest.importorskip("transformers")
    printed = run("hugging_face.py")
    for mass, hard in information(printed):  # of both layers
        assert mass > 0.05
        assert hard > 0.05
    assert "One expert off" in printed


@pytest.mark.slow
def test_a_language_model() -> None:
    printed = run("language_model.py")
    epochs = [float(loss) for loss in printed.splitlines()[0].split(":")[1].split()]
    assert epochs[-1] < epochs[0] < 4.0
    told = information(printed)
    assert len(told) == 4  # two layers by class, two by domain
    first, second, _, by_domain = (mass for mass, _ in told)
    assert second > first, "one layer is not another"
    assert second > by_domain, "experts follow classes of characters more than domains"
    assert len(re.findall(r"layer 1, expert \d: \d+ tokens", printed)) == 12
