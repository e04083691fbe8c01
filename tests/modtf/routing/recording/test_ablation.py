"""The cost of switching an expert off, against the model without the expert."""

import numpy as np
import pandas as pd
from scipy import stats
from small_models import make, torch

import modtf

TOKENS = torch.randint(40, (5, 12), generator=torch.Generator().manual_seed(0))
DOMAINS = ["a", "=b", "a", "=b", "=b"]
LAYER, EXPERT = 1, 3


def losses(model):
    with torch.inference_mode():
        logits = model(TOKENS).logits
    before = logits[:, :-1].transpose(1, 2)
    return torch.nn.functional.cross_entropy(before, TOKENS[:, 1:], reduction="none").numpy()


def test_an_expert_that_is_off_is_one_whose_weights_are_zero(tmp_path):
    model = make("Mixtral").eval()
    with torch.no_grad():
        for parameter in model.parameters():  # larger than a start at random, so that experts matter
            parameter.mul_(3.0)
    batches = [{"input_ids": TOKENS, "domain": DOMAINS}]
    folder = modtf.collect(model, batches, tmp_path / "x", labels="domain", ablate=[(LAYER, EXPERT)])
    found = pd.read_csv(folder / "ablation.csv").set_index("label")
    before = losses(model)
    with torch.no_grad():
        model.model.layers[LAYER].mlp.experts.down_proj[EXPERT].zero_()
    changes = losses(model) - before
    sent = (np.load(folder / "experts.npy")[LAYER] == EXPERT).any(axis=-1).reshape(TOKENS.shape)
    sent = sent[:, :-1]  # the last token has no next one, so it has no loss
    for label in DOMAINS[:2]:
        rows = np.array(DOMAINS) == label
        row = found.loc[label.replace("=", "'=")]  # no formula
        np.testing.assert_allclose(row["loss"], before[rows].mean(), rtol=1e-5)
        np.testing.assert_allclose(row["change"], changes[rows].mean(), rtol=1e-3)
        assert row["low"] < row["change"] < row["high"]
        assert row["sent"] == sent[rows].sum()
        lift = sent[rows].sum() / sent.sum() / rows.mean()
        np.testing.assert_allclose(row["bits"], np.log2(lift), rtol=1e-6)


def test_all_experts_at_once(tmp_path):
    folder = modtf.collect(make("Olmoe"), [TOKENS], tmp_path / "x", ablate=True)
    found = pd.read_csv(folder / "ablation.csv")
    assert found[["layer", "expert"]].to_numpy().tolist() == [[i, e] for i in range(2) for e in range(8)]
    assert (found["tokens"] == TOKENS[:, 1:].numel()).all()
    assert (found.groupby("layer")["sent"].sum() == 2 * TOKENS[:, 1:].numel()).all()


def test_the_interval_is_that_of_documents_and_losses_stay_within_them(tmp_path):
    """Rows hold two documents, and documents go on in the next row and in the next batch."""
    model = make("Mixtral").eval()
    documents = np.repeat([[0, 1], [2, 3], [4, 5], [5, 6], [6, 6]], 6, axis=1)
    parts = slice(0, 3), slice(3, 5)
    batches = [{"input_ids": TOKENS[part], "documents": documents[part]} for part in parts]
    folder = modtf.collect(model, batches, tmp_path / "x", ablate=[(LAYER, EXPERT)])
    (row,) = pd.read_csv(folder / "ablation.csv").itertuples()
    before = losses(model)
    with torch.no_grad():
        model.model.layers[LAYER].mlp.experts.down_proj[EXPERT].zero_()
    same = documents[:, 1:] == documents[:, :-1]
    change, of = (losses(model) - before)[same], documents[:, 1:][same]
    assert row.tokens == same.sum() == 51
    np.testing.assert_allclose(row.loss, before[same].mean(), rtol=1e-5)
    np.testing.assert_allclose(row.change, change.mean(), rtol=1e-3)
    apart = np.bincount(of, change - change.mean())
    half = stats.t.ppf(0.975, 6) * np.sqrt((apart**2).sum() * 7 / 6) / same.sum()
    np.testing.assert_allclose((row.high - row.low) / 2, half, rtol=1e-3)
