"""The recording of a Hugging Face model equals the model's routing."""

import numpy as np
import pytest
from small_models import MODELS, make, read, torch

import modtf
from modtf.routing import Routing
from modtf.routing.recording.layers import read_choices

TOKENS = torch.randint(40, (6, 10), generator=torch.Generator().manual_seed(0))
MASK = torch.ones_like(TOKENS)
MASK[1, 7:] = 0
MASK[4, :2] = 0  # on the left, as generation has it


def batches(size=2, **others):
    for start in range(0, len(TOKENS), size):
        part = slice(start, start + size)
        rest = {name: values[part] for name, values in others.items()}
        yield {"input_ids": TOKENS[part], "attention_mask": MASK[part], **rest}


@pytest.fixture(params=MODELS)
def model(request):
    return make(request.param)


def test_experts_and_weights_are_those_of_the_routers(model, tmp_path):
    """Reads them from the experts' inputs and from the routers' outputs."""
    ours = read(modtf.collect(model, batches(), tmp_path / "ours"))
    theirs = read(modtf.collect(model, batches(size=3), tmp_path / "theirs", routers="*.gate"))
    kept = MASK.numpy().astype(bool)
    assert ours["num_experts"] == theirs["num_experts"] == 8
    np.testing.assert_array_equal(ours["experts"], theirs["experts"])
    np.testing.assert_allclose(ours["weights"], theirs["weights"], rtol=1e-5)
    np.testing.assert_array_equal(ours["tokens"], TOKENS.numpy()[kept])
    np.testing.assert_array_equal(ours["documents"], np.repeat(np.arange(6), kept.sum(axis=1)))
    assert ours["positions"][:10].tolist() == [0, 1, 1, 2, 2, 2, 2, 3, 3, 3]


def test_experts_are_the_largest_logits(tmp_path):
    """Against the router logits that Mixtral returns when it is asked for them."""
    model = make("Mixtral").eval()
    found = read(modtf.collect(model, [TOKENS], tmp_path / "x"))
    with torch.inference_mode():
        logits = torch.stack(model(TOKENS, output_router_logits=True).router_logits)
    largest, experts = logits.topk(2, dim=-1)
    np.testing.assert_array_equal(found["experts"], experts.numpy())
    np.testing.assert_allclose(found["weights"], largest.softmax(dim=-1).numpy(), rtol=1e-5)


@pytest.mark.parametrize("labels", ["domain", lambda batch: [[word] for word in batch["domain"]]])
def test_labels_and_what_reads_them(model, labels, tmp_path):
    domains = ["law", "code", "law", "verse", "code", "law"]
    folder = modtf.collect(model.bfloat16(), batches(domain=domains), tmp_path / "x", labels=labels)
    routing = Routing.read(folder)
    kept = MASK.sum(dim=1).numpy()
    assert routing.names.labels == ("code", "law", "verse")
    named = np.array(routing.names.labels)[routing.labels]
    np.testing.assert_array_equal(named, np.repeat(domains, kept))
    layers = routing.measure(permutations=3)
    assert len(layers) == len(routing.names.layers or ()) > 0
    counts = layers[0].label_counts
    assert counts is not None
    assert counts.sum() == kept.sum()


class Words:
    """The used part of a tokenizer."""

    def __len__(self):
        return 40

    def batch_decode(self, ids):
        return [f"word {one}" + 30 * "!" * (one == 1) for (one,) in ids]


def test_without_labels_tokens_and_positions_are_what_routing_may_follow(tmp_path):
    routing = Routing.read(modtf.collect(make("Mixtral"), batches(), tmp_path / "x", tokenizer=Words()))
    assert list(routing.factors) == ["token", "position"]
    tokens = routing.factors["token"]
    assert routing.words is not None
    assert routing.labels is not None
    assert [routing.names.label(label) for label in routing.labels] == [routing.words[one] for one in tokens]
    assert routing.words[2] == "word 2"
    assert len(routing.words[1]) == 24


def test_the_model_is_left_as_it_was(tmp_path):
    model = make("Olmoe").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    modtf.collect(model, batches(), tmp_path / "x", ablate=[(0, 1)])
    assert model.training
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


class Tiny(torch.nn.Module):
    """A user's mixture of experts: a linear router that returns logits."""

    def __init__(self):
        super().__init__()
        self.embed, self.router = torch.nn.Embedding(40, 4), torch.nn.Linear(4, 5)

    def forward(self, input_ids):
        return self.router(self.embed(input_ids))


def test_a_router_that_puts_out_logits(tmp_path):
    model = Tiny()
    found = read(modtf.collect(model, [TOKENS], tmp_path / "x", routers="router", top_k=3))
    with torch.inference_mode():
        largest, experts = model(TOKENS).reshape(-1, 5).topk(3)
    np.testing.assert_array_equal(found["experts"], experts.numpy()[np.newaxis])
    np.testing.assert_allclose(found["weights"], largest.softmax(dim=-1).numpy()[np.newaxis], rtol=1e-6)


def test_logits_of_zero_drop_no_token(tmp_path):
    model = Tiny()
    for weights in model.router.parameters():
        torch.nn.init.zeros_(weights)
    found = read(modtf.collect(model, [TOKENS], tmp_path / "x", routers="router", top_k=3))
    assert (found["experts"] >= 0).all()
    np.testing.assert_allclose(found["weights"], 1 / 3, rtol=1e-6)


class Half(Tiny):
    """A router that returns probabilities in half precision. They sum to 1 within rounding."""

    def __init__(self):
        super().__init__()
        self.router = torch.nn.Sequential(self.router, torch.nn.Softmax(dim=-1)).bfloat16()
        self.embed = self.embed.bfloat16()


def test_probabilities_in_half_precision_are_no_logits(tmp_path):
    torch.manual_seed(0)
    model = Half()
    found = read(modtf.collect(model, [TOKENS], tmp_path / "x", routers="router", top_k=3))
    with torch.inference_mode():
        probs = model(TOKENS).float().reshape(-1, 5)
    assert (probs.sum(dim=-1) - 1).abs().max() > 1e-3
    largest = probs.topk(3).values
    expected = (largest / largest.sum(dim=-1, keepdim=True)).numpy()
    np.testing.assert_allclose(found["weights"], expected[np.newaxis], rtol=1e-6)


def test_sigmoids_are_weights_and_no_logits(tmp_path):
    torch.manual_seed(0)
    model = Tiny()
    model.router = torch.nn.Sequential(model.router, torch.nn.Sigmoid())
    found = read(modtf.collect(model, [TOKENS], tmp_path / "x", routers="router", top_k=3))
    with torch.inference_mode():
        largest = model(TOKENS).reshape(-1, 5).topk(3).values
    expected = (largest / largest.sum(dim=-1, keepdim=True)).numpy()
    np.testing.assert_allclose(found["weights"], expected[np.newaxis], rtol=1e-6)


@pytest.mark.parametrize("top_k", [None, 1, 2])
def test_a_mask_of_two_experts_is_no_list_of_experts(top_k):
    """Both hold the rows (1, 0) and (0, 1). A list of two experts has two weights."""
    rows, both = torch.tensor([[1, 0], [0, 1], [1, 0]]), torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]])
    if top_k != 2:
        found = read_choices([rows, rows * both], 2, top_k)
        assert found is not None
        assert found[0][:, 0].tolist() == [0, 1, 0]
        np.testing.assert_allclose(found[1][:, 0], [0.9, 0.7, 0.6], rtol=1e-6)
    if top_k != 1:
        found = read_choices([rows, both], 2, top_k)
        assert found is not None
        assert found[0].tolist() == rows.tolist()


@pytest.mark.parametrize("routers", [None, "*.gate"])
def test_a_layer_with_one_expert_sends_all_tokens_to_it(routers, tmp_path):
    """Its expert indices are all 0."""
    model = make("Mixtral", num_local_experts=1, num_experts_per_tok=1)
    found = read(modtf.collect(model, [TOKENS], tmp_path / "x", routers=routers))
    assert found["num_experts"] == 1
    np.testing.assert_array_equal(found["experts"], np.zeros((2, TOKENS.numel(), 1)))
    np.testing.assert_array_equal(found["weights"], 1)


def test_a_mask_of_one_expert_drops_the_tokens_that_it_leaves_out():
    mask = torch.tensor([[1], [0], [1]])
    found = read_choices([mask, mask * 0.5], 1, 1)
    assert found is not None
    assert found[0].tolist() == [[0], [-1], [0]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"No module's name matches \*.experts.*router"),
        ({"routers": "gate"}, "No module matches gate"),
        ({"routers": "router"}, "for example top_k=2"),
        ({"routers": "router", "top_k": 0}, "top_k=0"),
        ({"routers": "router", "top_k": 2, "labels": "domain"}, "labels='domain' is not a key of a batch"),
        ({"routers": "router", "top_k": 2, "labels": lambda batch: [1, 2]}, "labels have shape"),
        ({"routers": "router", "top_k": 2, "ablate": [(0, 9)]}, r"ablate holds \(0, 9\)"),
        *(
            ({"routers": "router", "top_k": 2, "ablate": ablate}, r"ablate=.* is not valid")
            for ablate in ((0, 1), 1, "all", [], [(0, 1.7)])
        ),
        ({"routers": "router", "top_k": 2, "ablate": True}, "ablate needs a model whose output has `logits`"),
        ({"routers": "router", "top_k": 2, "batches": []}, "No tokens were recorded"),
        ({"routers": "router", "top_k": 2, "batches": [{"x": TOKENS}]}, "expected input_ids"),
        ({"routers": "router", "top_k": 2, "batches": [TOKENS[0]]}, r"expected \[B, N\]"),
    ],
)
def test_bad_input_leaves_nothing_behind(given, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        modtf.collect(Tiny(), given.pop("batches", [TOKENS]), tmp_path / "x", **given)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_kept(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="exists already"):
        modtf.collect(make("Mixtral"), [TOKENS], tmp_path)
