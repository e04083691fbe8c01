"""Similarity of experts' weights: known answers, formats of checkpoints, chance, and one-line errors."""

from typing import Any

import numpy as np
import pytest

import modtf
from modtf.routing.analyses.similarity import (
    Spread,
    down_projections,
    matrices,
    similarities,
    similarity_rows,
)

E, HIDDEN, INNER = 4, 12, 20


@pytest.fixture(scope="module")
def experts():
    """Random experts; 1 is a copy of 0, and 2 is 0 with its neurons in another order."""
    generator = np.random.default_rng(0)
    found = generator.normal(size=(E, HIDDEN, INNER)).astype(np.float32)
    found[1] = 2 * found[0]
    found[2] = found[0][:, generator.permutation(INNER)]
    return found


def arrays_of(experts, layer="model.layers.0.mlp."):
    gate = np.zeros((E, HIDDEN), np.float32)
    each = {f"{layer}experts.{i}.down_proj.weight": one for i, one in enumerate(experts)}
    return {f"{layer}gate.weight": gate, f"{layer}shared_experts.down_proj.weight": experts[0], **each}


def save(path, arrays):
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, path)
    return path


def linear_cka(x, y):
    """Return linear CKA as it is defined, from centred kernels of examples."""
    centre = np.eye(len(x)) - 1 / len(x)
    k, m = (centre @ (one @ one.T) @ centre for one in (x.astype(float), y.astype(float)))
    return np.trace(k @ m) / np.sqrt(np.trace(k @ k) * np.trace(m @ m))


def test_values_are_those_of_the_definitions(experts, tmp_path):
    found = modtf.expert_similarity(save(tmp_path / "x.safetensors", arrays_of(experts)))
    table = found.table.set_index(["measure", "item"])["value"]
    flat = experts.reshape(E, -1).astype(float)
    pairs = [(i, j) for i in range(E) for j in range(i + 1, E)]
    cosines = [flat[i] @ flat[j] / np.linalg.norm(flat[i]) / np.linalg.norm(flat[j]) for i, j in pairs]
    assert table["cosine", ""] == pytest.approx(np.mean(cosines), abs=1e-6)
    assert table["cosine", "0+1"] == table["cosine", "largest"] == pytest.approx(1, abs=1e-6)
    alignments = [linear_cka(experts[i], experts[j]) for i, j in pairs]
    assert table["linear_cka", ""] == pytest.approx(np.mean(alignments), abs=1e-6)
    for item in ("0+1", "0+2", "1+2"):  # the order of neurons does not count
        assert table["linear_cka", item] == pytest.approx(1, abs=1e-5)
    assert found.pictures[0].table["measure"].tolist() == ["cosine", "linear_cka"]


@pytest.mark.parametrize("rows", [8, 512])
def test_random_experts_are_within_chance(rows, tmp_path):
    generator = np.random.default_rng(1)
    arrays: dict[str, np.ndarray] = {}
    for layer in range(20):
        values = generator.normal(size=(E, 32, INNER)).astype(np.float32)
        arrays |= arrays_of(values, f"layers.{layer}.")
    found = modtf.expert_similarity(save(tmp_path / "x.safetensors", arrays), rows=rows).table
    found = found[found["chance"].notna()]
    assert len(found) == 2 * 2 * 20
    assert ((found["value"] >= found["chance_low"]) & (found["value"] <= found["chance_high"])).mean() > 0.85
    alignment = found[found["measure"] == "linear_cka"]["chance"].mean()
    assert alignment > 0.3  # far above 0, though the experts have nothing in common
    assert found["layer"].tolist() == sorted(found["layer"])


@pytest.mark.slow
def test_many_random_experts_are_within_chance():
    """With 24 experts there are 276 pairs, whose mean varies far less than that of the pairs by chance."""
    inside = []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        experts, random = generator.standard_normal((2, 24, 16, 24), np.float32)
        pairs, by_chance = (similarities(list(some))[0] for some in (experts, random))
        spreads = {name: Spread.estimate(values) for name, values in by_chance.items()}
        rows = similarity_rows(0, pairs, spreads, generator)
        inside += [row["chance_low"] <= row["value"] <= row["chance_high"] for row in rows if not row["item"]]
    assert np.mean(inside) > 0.87


def test_fused_weights_are_read_by_the_size_of_the_router(experts, tmp_path):
    expected = down_projections(save(tmp_path / "each.safetensors", arrays_of(experts)))[0]
    for number, fused in enumerate((experts, experts.transpose(0, 2, 1))):
        arrays = {"layers.3.mlp.gate.weight": np.zeros((E, HIDDEN)), "layers.3.mlp.experts.down_proj": fused}
        (layer,) = down_projections(save(tmp_path / f"{number}.safetensors", arrays))
        assert layer.name == "layers.3.mlp"
        for one, other in zip(matrices(layer, 5, 0), matrices(expected, 5, 0), strict=True):
            assert one.shape == (5, INNER)
            np.testing.assert_array_equal(one, other)
    del arrays["layers.3.mlp.gate.weight"]
    with pytest.raises(ValueError, match=r"experts.down_proj has shape \[4, 20, 12\]. Which of the last two"):
        down_projections(save(tmp_path / "x.safetensors", arrays))


def test_a_model_and_its_checkpoint_in_shards_give_the_same(tmp_path):
    small_models = pytest.importorskip("small_models")
    model = small_models.make("Qwen3Moe")
    from safetensors.torch import save_file

    first: dict[str, Any] = {}
    second: dict[str, Any] = {}
    for name, tensor in model.state_dict().items():
        (second if ".layers.1." in name else first)[name] = tensor.bfloat16().contiguous()
    save_file(first, tmp_path / "model-1.safetensors")
    save_file(second, tmp_path / "model-2.safetensors")
    table = modtf.expert_similarity(model.bfloat16()).table
    assert table["layer"].unique().tolist() == [0, 1]
    assert table.equals(modtf.expert_similarity(tmp_path).table)


def test_a_layer_with_fewer_experts_is_named(experts, tmp_path):
    """One shard may hold the first experts of its last layer, which have no gap."""
    first, second = (arrays_of(experts, f"layers.{layer}.") for layer in (0, 1))
    both = modtf.expert_similarity(save(tmp_path / "x.safetensors", first | second))
    assert not any("fewer experts" in note for note in both.notes)
    rest = {name: one for name, one in second.items() if "experts.3" not in name}
    found = modtf.expert_similarity(save(tmp_path / "y.safetensors", first | rest))
    assert "layers.1 has fewer experts than other layers, 3 of 4." in found.notes[-1]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({f"experts.{i}.w2.weight": np.zeros((3, 4), np.float32) for i in (1, 4)},
         r"experts.* lacks the experts \[0, 2, 3\]; expected 0 to 4\. .* one shard .* give the folder"),
        ({"experts.7.w2.weight": np.zeros((3, 4), np.float32)}, r"lacks the experts \[0, .*, 5, \.\.\.\]"),
        ({"lm_head.weight": np.zeros((3, 3), np.float32)}, "has no layer with two or more experts"),
        ({f"experts.{i}.w2.weight": np.zeros((3, 4 + i), np.float32) for i in (0, 1)},
         r"Expert 1 of .* has weights of shape \[3, 5\]; expected \[3, 4\]"),
        ({f"experts.{i}.w2.weight": np.zeros((3, 4), np.int8) for i in (0, 1)}, "of type int8; expected"),
        ({f"experts.{i}.w2.weight": np.full((3, 4), np.nan) for i in (0, 1)}, "that are not finite"),
    ],
)  # fmt: skip
def test_errors_are_one_line(arrays, words, tmp_path):
    with pytest.raises(ValueError, match=words) as error:
        modtf.expert_similarity(save(tmp_path / "x.safetensors", arrays))
    assert "\n" not in str(error.value)


def test_a_thing_that_is_no_model_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"model is a int; expected a torch\.nn\.Module"):
        modtf.expert_similarity(3)
    with pytest.raises(ValueError, match=r"holds no \.safetensors file"):
        modtf.expert_similarity(tmp_path)
