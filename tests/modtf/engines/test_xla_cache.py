"""Compiled programs are kept, bounded, and never a danger."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modtf.engines.xla_cache import FLAG, XlaCache, prune, use_xla_cache

ROOT = Path(__file__).parents[3]

COMPILE = """
from modtf.engines.xla_cache import use_xla_cache
cache = use_xla_cache()
import shutil, sys
import tensorflow as tf
if sys.argv[1] == "removed":
    shutil.rmtree(cache.store, ignore_errors=True)
program = tf.function(lambda x: tf.sin(x) @ tf.cos(x), jit_compile=True)
print(float(tf.reduce_sum(program(tf.ones([8, 8])))))
new = [path for path in cache.folder.glob("*.pb") if not path.is_symlink()]
cache.keep()
print(len(new), len(list(cache.store.glob("*.pb"))))
"""


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MODTF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    monkeypatch.delenv("MODTF_XLA_CACHE", raising=False)


def compile_once(how=""):
    """(the sum, programs compiled, programs kept) of a fresh process."""
    result = subprocess.run(
        [sys.executable, "-c", COMPILE, how],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr[-2000:]
    return result.stdout.split()


def test_a_second_process_compiles_nothing_unless_the_first_ones_program_is_damaged(tmp_path):
    total, *counts = compile_once()
    assert counts == ["1", "1"]
    assert compile_once() == [total, "0", "1"]
    (path,) = (tmp_path / "cache").rglob("*.pb")
    path.write_bytes(path.read_bytes()[:100])
    assert compile_once("removed") == [total, "1", "1"]


def test_new_programs_are_kept_once(tmp_path):
    cache = XlaCache(tmp_path / "store")
    (cache.folder / "program.pb").write_bytes(b"text")
    cache.keep()
    cache.keep()
    (kept,) = (tmp_path / "store").iterdir()
    assert kept.read_bytes() == (cache.folder / "program.pb").read_bytes() == b"text"
    assert (XlaCache(tmp_path / "store").folder / "program.pb").read_bytes() == b"text"
    kept.write_bytes(b"tex")
    assert not list(XlaCache(tmp_path / "store").folder.iterdir())
    assert not kept.exists()


def test_a_store_that_cannot_be_written_costs_nothing(tmp_path):
    (tmp_path / "store").write_text("a file")
    cache = XlaCache(tmp_path / "store")
    (cache.folder / "program.pb").write_bytes(b"text")
    cache.keep()
    assert (cache.folder / "program.pb").read_bytes() == b"text"


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    for age, name in enumerate(["new", "older", "oldest"]):
        path = tmp_path / "version" / f"{name}.pb"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"0123456789")
        os.utime(path, (1e9 - age, 1e9 - age))
    prune(tmp_path, 25)
    assert sorted(path.stem for path in tmp_path.rglob("*.pb")) == ["new", "older"]


def test_the_users_wish(monkeypatch):
    monkeypatch.setenv("MODTF_XLA_CACHE", "0")
    assert use_xla_cache() is None
    monkeypatch.delenv("MODTF_XLA_CACHE")
    monkeypatch.setenv("TF_XLA_FLAGS", f"{FLAG}=/elsewhere")
    assert use_xla_cache() is None
    assert os.environ["TF_XLA_FLAGS"] == f"{FLAG}=/elsewhere"
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_auto_jit=0")
    cache = use_xla_cache()
    assert cache is not None
    assert os.environ["TF_XLA_FLAGS"] == f"--tf_xla_auto_jit=0 {FLAG}={cache.folder}"


def test_other_flags_compile_other_programs(monkeypatch):
    stores = []
    for flags in ("", "--xla_backend_optimization_level=0"):
        monkeypatch.setenv("XLA_FLAGS", flags)
        monkeypatch.setenv("TF_XLA_FLAGS", "")
        cache = use_xla_cache()
        assert cache is not None
        stores.append(cache.store)
    assert stores[0] != stores[1]
