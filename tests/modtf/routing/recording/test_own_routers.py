"""Routers written by users: the choice of the module itself is the oracle."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
Module: Any = torch.nn.Module

import modtf  # noqa: E402

TOKENS, WIDTH, EXPERTS, K = (2, 5), 6, 4, 2


class Model(Module):
    """One block with a router, called with tokens."""

    def __init__(self, router):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.block = torch.nn.Embedding(40, WIDTH), router()

    def forward(self, input_ids):
        return self.block(self.embed(input_ids))


class Shaped(Module):
    """Experts `[B, N, k]` and their scores `[B * N, k]`, from a weight `[D, E]` or `[E, D]`."""

    def __init__(self, transposed=False):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn((WIDTH, EXPERTS) if transposed else (EXPERTS, WIDTH)))
        self.transposed = transposed

    def forward(self, x):
        logits = x @ (self.weight if self.transposed else self.weight.T)
        scores, self.chosen = logits.softmax(-1).topk(K, dim=-1)
        return self.chosen, scores.reshape(-1, K)


class Biased(Module):
    """A linear gate, and something outside it that changes the choice."""

    def __init__(self, beside=None, value=None):
        super().__init__()
        self.gate = torch.nn.Linear(WIDTH, EXPERTS, bias=False)
        if torch.is_tensor(value):
            self.register_buffer(beside, value)
        elif beside:
            setattr(self, beside, value)

    def forward(self, x):
        return self.gate(x)


class Capacity(Module):
    """A gate that returns a loss and tensors `[T, E, C]`, as DeepSpeed's does."""

    def __init__(self):
        super().__init__()
        self.wg, self.top_k = torch.nn.Linear(WIDTH, EXPERTS), K

    def forward(self, x):
        logits = self.wg(x.reshape(-1, WIDTH))
        return logits.mean(), torch.zeros(len(logits), EXPERTS, 3)


def recorded(model, folder, **options):
    with modtf.record(model, **options) as recorder, torch.no_grad():
        model(torch.arange(10).reshape(TOKENS))
    recorder.save(folder)
    return {name: np.load(folder / f"{name}.npy") for name in ("experts", "num_experts")}


@pytest.mark.parametrize("transposed", [False, True], ids=["weight [E, D]", "weight [D, E]"])
def test_experts_by_batch_with_scores_by_token(transposed, tmp_path):
    model = Model(lambda: Shaped(transposed))
    arrays = recorded(model, tmp_path / "r", routers="block")
    assert int(arrays["num_experts"]) == EXPERTS
    np.testing.assert_array_equal(arrays["experts"][0], model.block.chosen.reshape(-1, K))


@pytest.mark.parametrize(
    ("beside", "value"),
    [("e_score_correction_bias", torch.ones(EXPERTS)), ("n_group", 2), ("noisy_gating", True)],
)
def test_a_linear_gate_whose_choice_is_made_elsewhere(beside, value, tmp_path):
    said = rf"block\.gate is a linear layer, and the module around it has {beside}.*routers='block'"
    with pytest.warns(UserWarning, match=said):
        recorded(Model(lambda: Biased(beside, value)), tmp_path / "r", routers="*.gate", top_k=K)


@pytest.mark.parametrize(("beside", "value"), [(None, None), ("n_group", 1), ("bias", torch.ones(WIDTH))])
def test_a_linear_gate_that_decides_alone(beside, value, tmp_path):
    model = Model(lambda: Biased(beside, value))
    arrays = recorded(model, tmp_path / "r", routers="*.gate", top_k=K)  # a warning is an error
    logits = model.block.gate(model.embed(torch.arange(10)))
    np.testing.assert_array_equal(np.sort(arrays["experts"][0]), np.sort(logits.topk(K).indices))


def test_a_gate_of_tensors_of_capacity_names_its_linear_layer(tmp_path):
    with pytest.raises(ValueError, match=r"routers='block.wg', top_k=2\."):
        recorded(Model(Capacity), tmp_path / "r", routers="block")
    arrays = recorded(Model(Capacity), tmp_path / "w", routers="block.wg", top_k=K)
    assert arrays["experts"].shape == (1, 10, K)


def test_one_expert(tmp_path):
    """Logits of width 1 are those of a router with one expert."""
    arrays = recorded(Model(lambda: torch.nn.Linear(WIDTH, 1)), tmp_path / "r", routers="block", top_k=1)
    assert (int(arrays["num_experts"]), set(arrays["experts"].ravel())) == (1, {0})
    assert len(modtf.read_routing(tmp_path / "r").measure(permutations=0)) == 1


@pytest.mark.parametrize("read", [
    lambda layers: modtf.measure_activations(layers),
    lambda layers: modtf.measure_activations(experts=layers, num_experts=EXPERTS),
    lambda layers: modtf.read_routing({"router_logits": layers}),
    lambda layers: modtf.read_routing({"activations": layers}),
], ids=["activations", "experts", "router_logits", "mapping"])  # fmt: skip
def test_a_layer_without_a_router_is_named(read):
    with pytest.raises(ValueError, match="has None as layer 1"):
        read([torch.ones(20, EXPERTS).int(), None])


def test_weights_in_bfloat16_are_those_in_float32():
    experts, weights = torch.arange(40).reshape(20, 2) % EXPERTS, torch.rand(20, 2).bfloat16()
    both = [
        modtf.measure_activations(experts=experts, weights=one, num_experts=EXPERTS, permutations=0)[0]
        for one in (weights, weights.float())
    ]
    np.testing.assert_array_equal(both[0].mass.activation, both[1].mass.activation)


class Stale(Module):
    """Two layers, whose rows after the first 64 tokens are those of one token."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(200, WIDTH)
        self.first, self.second = (torch.nn.Linear(WIDTH, 16, bias=False) for _ in range(2))

    def forward(self, input_ids):
        x = self.embed(torch.where(torch.arange(128) < 64, input_ids, 7))
        return self.second(x) + self.first(x)


def test_stale_rows_of_a_recording_are_left_out():
    """As a saved recording is read: the recorder measures the same tokens."""
    torch.manual_seed(0)
    model = Stale()
    with modtf.record(model, routers=["first", "second"], top_k=K) as recorder, torch.no_grad():
        model(torch.randperm(200)[:128][None])
    with pytest.warns(UserWarning, match="left out"):
        (layer, _) = recorder.measure(permutations=0)
    assert 60 <= np.sum(layer.label_counts) <= 64  # type: ignore[arg-type]
