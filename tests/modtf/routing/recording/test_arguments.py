"""The entries of a batch reach the model as its arguments, and others are named."""

import numpy as np
import pytest
from small_models import make, read, torch

import modtf

TOKENS = torch.randint(40, (6, 10), generator=torch.Generator().manual_seed(0))
BATCH = {"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}


class Adapted(torch.nn.Module):
    """A model that hands on what it does not name itself, as PEFT's models do."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids=None, attention_mask=None, **kwargs):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, **kwargs)


def test_arguments_that_a_wrapper_hands_on_reach_the_model(tmp_path):
    model = make("Mixtral")
    places = 5 * torch.arange(10).repeat(6, 1)
    bare = read(modtf.collect(model, [{**BATCH, "position_ids": places}], tmp_path / "x"))
    wrapped = read(modtf.collect(Adapted(model), [{**BATCH, "position_ids": places}], tmp_path / "y"))
    np.testing.assert_array_equal(bare["weights"], wrapped["weights"])
    without = read(modtf.collect(model, [BATCH], tmp_path / "z"))
    assert (bare["weights"] != without["weights"]).any()


@pytest.mark.parametrize("wrap", [lambda model: model, Adapted])
def test_arguments_that_a_forward_takes_by_annotation_reach_the_layers(wrap, tmp_path):
    """Transformers names them in the annotation of `**kwargs`. Numbers stay numbers."""
    model, got = make("Mixtral"), []
    attention = model.model.layers[0].self_attn
    attention.register_forward_pre_hook(lambda _, args, kwargs: got.append(kwargs), with_kwargs=True)
    batch = {"input_ids": TOKENS, "cu_seq_lens_q": torch.tensor([0, 5, 10]), "max_length_q": 5}
    modtf.collect(wrap(model), [batch], tmp_path / "x")
    assert got[0]["cu_seq_lens_q"].tolist() == [0, 5, 10]
    assert type(got[0]["max_length_q"]) is int


@pytest.mark.parametrize("wrap", [lambda model: model, Adapted])
@pytest.mark.parametrize(
    ("labels", "words"),
    [("domain", "source, which the model does not take.* leave it out"),
     (lambda batch: batch["domain"], "source, domain, which the model does not take.* `labels` reads it")],
)  # fmt: skip
def test_numbers_that_the_model_does_not_take_are_named(wrap, labels, words, tmp_path):
    others = dict.fromkeys(("source", "labels", "documents", "domain"), torch.arange(6))
    batch = {"input_ids": TOKENS, "text": np.array(["a"] * 6), "names": [["a"], ["b", "c"]], **others}
    with pytest.warns(UserWarning, match=f"Batch 0 has {words}"):
        modtf.collect(wrap(make("Mixtral")), [batch], tmp_path / "x", labels=labels)
