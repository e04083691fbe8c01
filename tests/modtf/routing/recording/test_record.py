"""Forward passes of any kind are recorded token by token: generation, training, wrapped models."""

import numpy as np
import pytest
from small_models import make, read, torch

import modtf

TOKENS = torch.randint(3, 40, (3, 6), generator=torch.Generator().manual_seed(0))
MASK = torch.ones_like(TOKENS)
MASK[1, :2] = 0
END, PAD = 7, 0


class Wrapper(torch.nn.Module):
    """A model inside another one that hands on what it gets, as PEFT does."""

    def __init__(self, model):
        super().__init__()
        self.base_model = torch.nn.Module()
        self.base_model.model = model

    def forward(self, *args, **kwargs):
        return self.base_model.model(*args, **kwargs)


def compiled(model):
    return torch.compile(model, backend="eager")


def test_prefill_and_decoding_are_one_pass_over_all_tokens(tmp_path):
    """A recording token by token equals one forward pass over the generated text."""
    model = make("Mixtral").eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = END, PAD
    following = iter([[20, END, 22], [21, 9, 23], [END, 9, 24], [30, 31, 32]])  # steps x rows

    def choose(ids, scores):
        return torch.nn.functional.one_hot(torch.tensor(next(following)), scores.shape[-1]) * 100.0

    with modtf.record(model) as recorder:
        recorder.next(labels=["law", "code", "law"])
        whole = model.generate(TOKENS, attention_mask=MASK, max_new_tokens=4, logits_processor=[choose])
    found = read(recorder.save(tmp_path / "x"))
    fed = whole[:, :-1]  # the last token is never fed
    keep = torch.cat([MASK, torch.ones(3, 3)], 1).bool()
    keep[1, 7:] = False  # ended with its first new token
    with modtf.record(model) as recorder:
        model(fed, attention_mask=torch.cat([MASK, torch.ones(3, 3, dtype=torch.long)], 1))
    once = read(recorder.save(tmp_path / "y"))
    everything = torch.cat([MASK, torch.ones(3, 3)], 1).bool()
    rows = keep[everything].numpy()
    np.testing.assert_array_equal(found["tokens"], fed[keep])
    np.testing.assert_array_equal(found["documents"], np.repeat(np.arange(3), keep.sum(1)))
    np.testing.assert_array_equal(found["experts"], once["experts"][:, rows])
    np.testing.assert_array_equal(found["positions"], once["positions"][rows])
    assert (
        found["label_names"][found["labels"]].tolist()
        == np.repeat(["law", "code", "law"], keep.sum(1)).tolist()
    )


def test_a_training_loop_is_recorded_once_a_step(tmp_path):
    """The recomputation of activation checkpointing is not recorded."""
    model = make("Olmoe").train()
    model.activation_checkpointing_enable()
    with modtf.record(model) as recorder:
        for _ in range(2):
            model(TOKENS, labels=TOKENS).loss.backward()
    found = read(recorder.save(tmp_path / "x"))
    assert found["experts"].shape == (2, 2 * TOKENS.numel(), 2)
    assert found["documents"].max() == 5


@pytest.mark.parametrize(
    "wrap", [Wrapper, compiled, torch.nn.DataParallel, lambda model: Wrapper(compiled(model))]
)
def test_wrapped_models_are_recorded_like_bare_ones(wrap, tmp_path):
    model = make("Mixtral")
    bare = read(modtf.collect(model, [{"input_ids": TOKENS, "attention_mask": MASK}], tmp_path / "x"))
    wrapped = read(
        modtf.collect(wrap(model), [{"input_ids": TOKENS, "attention_mask": MASK}], tmp_path / "y")
    )
    for name, values in bare.items():
        np.testing.assert_array_equal(values, wrapped[name])


class Positional(torch.nn.Module):
    """A model with another name for its tokens."""

    def __init__(self):
        super().__init__()
        self.embed, self.router = torch.nn.Embedding(40, 4), torch.nn.Linear(4, 5)

    def forward(self, idx, targets=None):
        return self.router(self.embed(idx))


def test_a_model_with_another_name_for_its_tokens(tmp_path):
    found = read(modtf.collect(Positional(), [TOKENS], tmp_path / "x", routers="router", top_k=1))
    np.testing.assert_array_equal(found["tokens"], TOKENS.flatten())


def test_labels_of_tokens_are_no_labels_of_documents():
    """The numbers of two documents go up to 5, and there are six tokens: one label for each token."""
    model = Positional()
    with modtf.record(model, routers="router", top_k=1) as recorder, torch.inference_mode():
        recorder.next(documents=[5, 0])
        model(TOKENS[:2, :3])
    (layer,) = recorder.measure(labels=[0, 1, 1, 1, 1, 1], permutations=0)
    np.testing.assert_array_equal(layer.label_counts, [1, 5])


def test_labels_of_documents_are_measured():
    model = make("Mixtral")
    with modtf.record(model) as recorder, torch.inference_mode():
        model(TOKENS, attention_mask=MASK)
        model(TOKENS.flip(1))
    by_document = recorder.measure(labels=["a", "b", "a", "b", "a", "b"], permutations=3)
    lengths = [*MASK.sum(1).tolist(), 6, 6, 6]
    by_token = recorder.measure(labels=np.repeat(list("ababab"), lengths), permutations=3)
    values = [layers[0].hard.values["inverse_mutual_information"].value for layers in (by_document, by_token)]
    assert values[0] == values[1] < 1
    with pytest.raises(ValueError, match=r"expected \(6,\), one for each document, or \(34,\)"):
        recorder.measure(labels=[0, 1])


def test_labels_come_with_all_passes_or_none():
    model = make("Mixtral")
    with modtf.record(model) as recorder:
        recorder.next(labels=[0, 1, 0])
        model(TOKENS)
        with pytest.raises(ValueError, match="some have none"):
            model(TOKENS)


def test_masks_that_hide_the_padding_are_refused():
    model = make("Mixtral")
    with modtf.record(model), pytest.raises(ValueError, match=r"attention_mask is not \[B, N\]"):
        model(TOKENS, attention_mask=torch.ones(1, 1, 6, 6, dtype=torch.bool))


@pytest.mark.parametrize("options", [{}, {"cache_implementation": "static"}, {"num_beams": 2}])
def test_each_generation_has_documents_of_its_own(options, tmp_path):
    """With masks that are [B, 1, N, keys] in a static cache, and without any; the last token is never fed."""
    model = make("Mixtral").eval()
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, **options}
    with modtf.record(model) as recorder:
        model.generate(TOKENS, attention_mask=MASK, **options)
        model.generate(TOKENS, **options)
    found = read(recorder.save(tmp_path / "x"))
    beams = options.get("num_beams", 1)
    lengths = torch.cat([MASK.sum(1) + 3, torch.full((3,), 9)]).repeat_interleave(beams)
    assert np.bincount(found["documents"]).tolist() == lengths.tolist()


def test_what_is_no_model_is_named():
    with pytest.raises(ValueError, match=r"model is a str; expected a torch.nn.Module"):
        modtf.record("allenai/OLMoE")


def test_labels_of_named_documents_are_in_the_order_of_the_names(tmp_path):
    """The labels of a saved folder agree, which has the documents as numbers."""
    lengths, labels = [2, 4, 5, 1], np.array([0, 1, 0, 1])
    names = np.repeat(["d", "c", "b", "a"], lengths).reshape(2, 2, 3)
    with modtf.record(Positional(), routers="router", top_k=1) as recorder, torch.inference_mode():
        for documents in names:
            recorder.next(documents=documents)
            recorder.watcher.modules[""](TOKENS[:2, :3])
    (layer,) = recorder.measure(labels=labels, permutations=0)
    np.testing.assert_array_equal(layer.label_counts, [7, 5])
    np.save(tmp_path / "labels.npy", labels)
    routing = modtf.read_routing(recorder.save(tmp_path / "x"), labels=str(tmp_path / "labels.npy"))
    np.testing.assert_array_equal(routing.labels, np.repeat(labels, lengths))


PACKED = np.array([[0, 0, 1], [1, 1, 2]])


def recorded(*passes, model=None):
    """Record passes of 2 x 3 tokens with these documents."""
    with modtf.record(model or Positional(), routers="router", top_k=1) as recorder, torch.inference_mode():
        for documents in passes:
            recorder.next(documents=documents)
            recorder.watcher.modules[""](TOKENS[:2, :3])
    return recorder


@pytest.mark.parametrize("passes", [[PACKED, PACKED], [[[0, 0, 1], [0, 0, 1]]], [[0, 1], [0, 1], [0, 1]]])
def test_documents_that_begin_at_0_again_are_reported_once(passes):
    with pytest.warns(UserWarning, match="Document 0 comes back after other documents") as notes:
        recorded(*passes)
    assert len(notes) == 1


def test_documents_may_go_on_in_the_next_row_or_pass(tmp_path):
    recorder = recorded(PACKED, PACKED + 2, [4, 5], None)
    documents = read(recorder.save(tmp_path / "x"))["documents"]
    assert documents.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 4, *np.repeat(range(5, 8), 3)]
    recorded(list("ab"), list("ab"))  # names are meant


def test_automatic_documents_are_not_given_ones(tmp_path):
    documents = read(recorded(None, ["b", "a"], None).save(tmp_path / "x"))["documents"]
    assert documents.tolist() == np.repeat(range(6), 3).tolist()
    with pytest.raises(ValueError, match="documents hold 0, but a row without documents has this number"):
        recorded(None, [0, 1])


def test_positions_restart_at_each_document(tmp_path):
    """The classes are 0, 1 to 2, 3 to 6, 7 to 14."""
    model = Positional()
    with modtf.record(model, routers="router", top_k=1) as recorder, torch.inference_mode():
        recorder.next(documents=[[0] * 9 + [1] * 4, [2] * 13])
        model(torch.ones(2, 13, dtype=torch.long))
    found = read(recorder.save(tmp_path / "x"))["positions"]
    classes = [0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3]
    assert found.tolist() == [*classes[:9], *classes[:4], *classes]
