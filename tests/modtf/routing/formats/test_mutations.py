"""300 changes of experts in valid files: each is rejected, warned about, or harmless, never silent."""

import format_writers as writers
import numpy as np
import pytest
from silence import EXPECTED, is_silent, load

EXPERTS = writers.EXPERTS
SEEDS = 3


def zero_layer(experts, generator):
    experts[:, generator.integers(writers.LAYERS)] = 0
    return experts


def minus_layer(experts, generator):
    experts[:, generator.integers(writers.LAYERS)] = -1
    return experts


def zero_rows(experts, generator):
    experts[generator.choice(len(experts), 3, replace=False)] = 0
    return experts


def repeated(experts, generator):
    experts[generator.integers(len(experts)), generator.integers(writers.LAYERS)] = 3
    return experts


def beyond(experts, generator):
    experts[generator.integers(len(experts)), 0, 0] = EXPERTS
    return experts


def below(experts, generator):
    experts[generator.integers(len(experts)), 0, 0] = -2
    return experts


def cut_first(experts, _):
    return experts[1:]


def cut_last(experts, _):
    return experts[:-1]


def two_more(experts, _):
    return np.concatenate([experts, experts[:2]])


def swapped(first, second):
    return lambda experts, _: experts.swapaxes(first, second)


VALUES = (zero_layer, zero_rows, repeated, beyond)
LENGTHS = (cut_first, cut_last, two_more)
AXES = (swapped(0, 1), swapped(1, 2), swapped(0, 2))
#: format -> what is done to the experts [tokens, layers, k] of every document
CHANGES = {
    "vllm": (*VALUES, minus_layer, *LENGTHS, *AXES),
    "vllm_objects": (*VALUES, below, minus_layer, *LENGTHS, *AXES),
    "vllm_split": (*VALUES, below, minus_layer, *LENGTHS, *AXES),
    "sglang": (*VALUES, below, minus_layer, *LENGTHS, swapped(1, 2)),
    "verl": (*VALUES, below, minus_layer, cut_first, cut_last),
    "sglang_recorder": (zero_layer, zero_rows, repeated),
    "router_layers": (*VALUES, below, minus_layer),
    "moe_atlas": (*VALUES, below, minus_layer),
    "llama_csv": (*VALUES, below, minus_layer),
}
#: format -> what is done to the experts of all tokens
WHOLE = {
    "transformer_lens": (*VALUES, below, minus_layer),
    "flame": (*VALUES, below, minus_layer),
    "megatron_core": (*VALUES, below, minus_layer),
    "arrays": (*VALUES, below, minus_layer, *LENGTHS, *AXES),
}


def arrays(_):
    sizes = {"labels": np.array([0, 1, 0])[writers.DOCUMENTS], "documents": writers.DOCUMENTS}
    return {"experts": writers.CHOSEN, **sizes}


def change_documents(change, generator, monkeypatch):
    changed = [(change(experts.copy(), generator), w, t) for experts, w, t in writers.documents()]
    monkeypatch.setattr(writers, "documents", lambda: iter(changed))


def change_all(change, generator, monkeypatch):
    experts = change(np.moveaxis(writers.CHOSEN, 0, 1).copy(), generator)
    monkeypatch.setattr(writers, "CHOSEN", np.moveaxis(experts, 0, 1))


CASES = [(n, c, s, change_documents) for n, changes in CHANGES.items() for c in changes for s in range(SEEDS)]
CASES += [(n, c, s, change_all) for n, changes in WHOLE.items() for c in changes for s in range(SEEDS)]


@pytest.mark.parametrize("name", [*CHANGES, *WHOLE])
def test_a_valid_file_is_measured_without_a_word(name, tmp_path):
    thing = arrays(tmp_path) if name == "arrays" else getattr(writers, name)(tmp_path)
    found, said = load(thing, **({"top_k": writers.K} if name == "sglang" else {}))
    assert said == []
    np.testing.assert_allclose(list(found.values()), EXPECTED / EXPECTED.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", [*CHANGES, *WHOLE])
def test_experts(name, tmp_path):
    write = arrays if name == "arrays" else getattr(writers, name)
    given = {"top_k": writers.K} if name == "sglang" else {}
    silent = []
    for number, (_, change, seed, apply) in enumerate(case for case in CASES if case[0] == name):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            apply(change, np.random.default_rng(seed), monkeypatch)
            thing = write(folder)
        if is_silent(thing, **given):
            silent.append((change.__name__, seed))
    assert not silent


def test_there_are_three_hundred():
    assert len(CASES) >= 300
