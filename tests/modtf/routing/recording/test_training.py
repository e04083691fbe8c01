"""The log of a training loop equals a count of the routers' choices."""

import numpy as np
import pytest
from small_models import make, torch

import modtf

GENERATOR = torch.Generator().manual_seed(0)
BATCHES = torch.randint(40, (8, 4, 12), generator=GENERATOR)
LABELS = ["law", "code", "law", "verse"]
NAME = "model.layers.1.mlp.experts"


def train(model, recorder, rate, note=lambda recorder: recorder.next(labels=LABELS)):
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    for tokens in BATCHES:
        note(recorder)
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        if not hasattr(model, "_orig_mod"):  # which would be compiled here
            model.eval()
            model(tokens[:1])  # an evaluation in between is no training
            model.train()


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: torch.compile(model, backend="eager")])
def test_records_are_sums_over_the_passes(wrap):
    model = make("Mixtral").train()
    chosen = []
    experts = model.get_submodule(NAME)
    records: list[dict] = []
    wrapped = wrap(model)
    with modtf.record(wrapped, every=4, log=records.append) as recorder:
        experts.register_forward_pre_hook(lambda module, args: chosen.append(args[1].numpy()))
        train(wrapped, recorder, 0.0)
    assert records == recorder.history
    assert [record["step"] for record in records] == [4, 8]
    passes = [one for one in chosen if len(one) == 48][:4]
    counts = np.bincount(np.concatenate(passes).ravel(), minlength=8)
    share = counts / counts.sum()
    (first, second), prefix = records, "routing/{}/" + NAME
    assert first[prefix.format("max_violation")] == pytest.approx(8 * share.max() - 1)
    assert first[prefix.format("dead_experts")] == (counts == 0).sum()
    entropy = -(share[share > 0] * np.log(share[share > 0])).sum() / np.log(8)
    assert first[prefix.format("entropy")] == pytest.approx(entropy)
    assert abs(first[prefix.format("adjusted_mutual_information")]) < 0.2  # it knows nothing of the labels
    assert prefix.format("saturation") not in first
    assert second[prefix.format("saturation")] == 1.0  # at a learning rate of 0
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in [model, model.model])


def test_saturation_is_that_of_the_first_batch(tmp_path):
    model = make("Olmoe").train()
    saturated: list[np.ndarray] = []

    def experts():
        with modtf.record(model) as recorder, torch.inference_mode():
            model.eval()(BATCHES[0])
        model.train()
        return np.load(recorder.save(tmp_path / str(len(saturated))) / "experts.npy")[1]

    def log(record):
        saturated.append(experts())

    with modtf.record(model, every=4, log=log) as recorder:
        train(model, recorder, 3.0, note=lambda recorder: None)
    before, now = saturated
    expected = np.mean([len(set(a) & set(b)) / 2 for a, b in zip(before, now, strict=True)])
    assert 0 < expected < 1
    assert recorder.history[1][f"routing/saturation/{NAME}"] == pytest.approx(expected)


def test_labels_of_a_pass_that_is_not_recorded_are_not_those_of_the_next():
    """Every second of 20 passes is recorded; the labels belong to the others."""
    model = make("Mixtral").train()
    with modtf.record(model, every=20) as recorder:
        for step in range(20):
            if step % 2 == 0:
                recorder.next(labels=LABELS)
            model(input_ids=BATCHES[0])
    (record,) = recorder.history
    assert f"routing/entropy/{NAME}" in record
    assert f"routing/adjusted_mutual_information/{NAME}" not in record


def test_tensorboard_and_what_is_no_log(tmp_path):
    model = make("Mixtral").train()
    with modtf.record(model, every=8, log=tmp_path / "runs") as recorder:
        train(model, recorder, 0.1)
    assert list((tmp_path / "runs").glob("events.*"))
    with pytest.raises(ValueError, match="log=3 is not valid; expected a folder for TensorBoard"):
        modtf.record(model, every=8, log=3)
    with pytest.raises(ValueError, match="log needs every, the number"):
        modtf.record(model, log=print)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="every=0"):
        modtf.record(model, every=0)


def test_a_layer_whose_tokens_have_one_row_does_not_shift_the_others():
    """A layer that sends all tokens to one expert has no information; the next layer keeps its own."""

    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other = torch.nn.Linear(1, 4), torch.nn.Embedding(40, 4)
            self.other.weight.data = 9.0 * torch.eye(4)[torch.arange(40) % 4]

        def forward(self, input_ids):
            self.one(torch.ones(*input_ids.shape, 1))
            return self.other(input_ids)

    model = Two().train()
    with modtf.record(model, every=1, routers=["one", "other"], top_k=1) as recorder:
        recorder.next(labels=BATCHES[0] % 4)
        model(BATCHES[0])
    (record,) = recorder.history
    name = "routing/adjusted_mutual_information/{}"
    assert record[name.format("other")] == pytest.approx(1.0)
    assert name.format("one") not in record


class Fixed(torch.nn.Module):
    """A router that sends token t to the experts t // 2, t // 2 + 1, ..., modulo E."""

    def __init__(self, num_experts, top_k):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k

    def forward(self, input_ids):
        chosen = (input_ids.reshape(-1, 1) // 2 + torch.arange(self.top_k)) % self.num_experts
        return chosen, torch.ones(chosen.shape) / self.top_k, torch.zeros(len(chosen), self.num_experts)


class Layers(torch.nn.Module):
    """A model whose layers have routers of the given numbers of experts and choices."""

    def __init__(self, *sizes):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.ModuleDict({"gate": Fixed(*size)}) for size in sizes)

    def forward(self, input_ids):
        return [block["gate"](input_ids) for block in self.blocks]


def information(record):
    return [value for name, value in record.items() if "adjusted_mutual_information" in name]


@pytest.mark.parametrize("others", [[], [(16, 1)], [(4, 2)]])
def test_each_layer_is_measured_by_its_own_number_of_experts_and_choices(others):
    """A layer of four experts carries all that it can about eight labels, whatever the others have."""
    tokens = torch.arange(64)[:, None].expand(64, 2) % 8
    found = []
    for sizes in ([(4, 1), *others], [*others, (4, 1)]):
        model = Layers(*sizes).train()
        with modtf.record(model, every=1) as recorder:
            recorder.next(labels=tokens)
            model(tokens)
        found.append(information(recorder.history[0]))
        assert len(found[-1]) == len(sizes)
    assert found[0][0] == found[1][-1] == pytest.approx(1.0)


def test_a_record_with_one_label_has_no_information_about_labels():
    model = Layers((4, 1)).train()
    with modtf.record(model, every=1) as recorder:
        for labels in ("ab", "aa", "ab"):
            recorder.next(labels=list(labels))
            model(torch.arange(16).reshape(2, 8))
    assert [len(information(record)) for record in recorder.history] == [1, 0, 1]


@pytest.mark.parametrize("every", [1, 7, 25, 32, 64])
def test_a_record_every_so_many_passes(every):
    model = make("Mixtral").train()
    with modtf.record(model, every=every) as recorder, torch.no_grad():
        for _ in range(3 * every):
            model(input_ids=BATCHES[0][:1, :2])
    assert [record["step"] for record in recorder.history] == [every, 2 * every, 3 * every]
