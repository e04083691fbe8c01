"""Changes of experts in valid files: each is rejected, warned about, or harmless, never silent."""

import format_writers as writers
import numpy as np
import pytest
from silence import EXPECTED, is_silent, load

EXPERTS = writers.EXPERTS
SEEDS = 1


def put(value, *index):
    """Return a change of some experts [tokens, layers, k] to a value; `index` says which, by chance."""

    def change(experts, generator):
        experts[tuple(one(generator, experts) if callable(one) else one for one in index)] = value
        return experts

    return change


def token(generator, experts):
    return generator.integers(len(experts))


def layer(generator, experts):
    return generator.integers(writers.LAYERS)


def some_tokens(generator, experts):
    return generator.choice(len(experts), 3, replace=False)


#: what is done -> the change of experts [tokens, layers, k]
CHANGE = {
    "a layer of zeros": put(0, ..., layer, slice(None)),
    "tokens of zeros": put(0, some_tokens),
    "an expert twice": put(3, token, layer),
    "an expert too many": put(EXPERTS, token, 0, 0),
    "below -1": put(-2, token, 0, 0),
    "a layer of -1": put(-1, ..., layer, slice(None)),
    "no first token": lambda experts, _: experts[1:],
    "no last token": lambda experts, _: experts[:-1],
    "two tokens more": lambda experts, _: np.concatenate([experts, experts[:2]]),
    "layers first": lambda experts, _: experts.swapaxes(0, 1),
    "k before layers": lambda experts, _: experts.swapaxes(1, 2),
    "k first": lambda experts, _: experts.swapaxes(0, 2),
}
VALUES, MINUS, LENGTHS, AXES = (
    list(CHANGE)[part] for part in (slice(4), slice(4, 6), slice(6, 9), slice(9, 12))
)
#: format -> what is done to the experts [tokens, layers, k] of every document
CHANGES = {
    "vllm": (*VALUES, MINUS[1], *LENGTHS, *AXES),
    "vllm_objects": (*VALUES, *MINUS, *LENGTHS, *AXES),
    "vllm_split": (*VALUES, *MINUS, *LENGTHS, *AXES),
    "sglang": (*VALUES, *MINUS, *LENGTHS, AXES[1]),
    "verl": (*VALUES, *MINUS, *LENGTHS[:2]),
    "sglang_recorder": VALUES[:3],
    "csv_choices": (*VALUES, *MINUS),
    "jsonl_layers": (*VALUES, *MINUS),
    "csv_of_documents": (*VALUES, *MINUS),
}
#: format -> what is done to the experts of all tokens
WHOLE = {
    "transformer_lens": (*VALUES, *MINUS),
    "flame": (*VALUES, *MINUS),
    "megatron_core": (*VALUES, *MINUS),
    "arrays": (*VALUES, *MINUS, *LENGTHS, *AXES),
}


def arrays(_):
    sizes = {"labels": np.array([0, 1, 0])[writers.DOCUMENTS], "documents": writers.DOCUMENTS}
    return {"experts": writers.CHOSEN, **sizes}


def change_documents(change, generator, monkeypatch):
    changed = [(CHANGE[change](experts.copy(), generator), w, t) for experts, w, t in writers.documents()]
    monkeypatch.setattr(writers, "documents", lambda: iter(changed))


def change_all(change, generator, monkeypatch):
    experts = CHANGE[change](np.moveaxis(writers.CHOSEN, 0, 1).copy(), generator)
    monkeypatch.setattr(writers, "CHOSEN", np.moveaxis(experts, 0, 1))


CASES = [(n, c, s, change_documents) for n, changes in CHANGES.items() for c in changes for s in range(SEEDS)]
CASES += [(n, c, s, change_all) for n, changes in WHOLE.items() for c in changes for s in range(SEEDS)]


@pytest.mark.parametrize("name", [*CHANGES, *WHOLE])
def test_a_valid_file_is_measured_without_a_word(name, tmp_path):
    thing = arrays(tmp_path) if name == "arrays" else getattr(writers, name)(tmp_path)
    measured, notes = load(thing, **({"top_k": writers.K} if name == "sglang" else {}))
    assert notes == []
    np.testing.assert_allclose(list(measured.values()), EXPECTED / EXPECTED.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", [*CHANGES, *WHOLE])
def test_experts(name, tmp_path):
    write = arrays if name == "arrays" else getattr(writers, name)
    options = {"top_k": writers.K} if name == "sglang" else {}
    silent = []
    for number, (_, change, seed, apply) in enumerate(case for case in CASES if case[0] == name):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as monkeypatch:
            apply(change, np.random.default_rng(seed), monkeypatch)
            thing = write(folder)
        if is_silent(thing, **options):
            silent.append((change, seed))
    assert not silent
