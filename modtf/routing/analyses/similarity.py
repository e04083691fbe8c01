"""Expert similarity: how alike the weights (down-projections) of a layer's experts are."""

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.base.checks import check_integer
from modtf.metrics.distributions import Array
from modtf.routing.analyses.chance import rows_of
from modtf.routing.analyses.registry import FEWEST, Analysed
from modtf.routing.analyses.sentences import beyond_chance
from modtf.routing.drawing import draw_measures
from modtf.routing.formats.array_files import tensors_of
from modtf.routing.formats.source import Source, by_number, explained
from modtf.routing.measuring.layers import from_bfloat16
from modtf.routing.measuring.summarise import Progress
from modtf.routing.names import Names

COSINE, CKA = "cosine", "linear_cka"
ROWS = 512
RANDOM = 24  # random matrices, whose 276 pairs give the mean and spread by chance
PAIRS = 3  # most similar pairs of a layer that are listed
ENDING = ".safetensors"
DOWN = r"(?:down_proj|w2|wo|fc2|linear_fc2|dense_4h_to_h)"
#: model.layers.0.mlp.experts.3.down_proj.weight: one matrix [hidden, inner] for each expert
EACH = re.compile(
    rf"(?P<layer>(?:.*\.)?)experts\.(?:\w+\.)*?(?:expert_)?(?P<expert>\d+)\.(?:.*\.)?{DOWN}\.weight"
)
#: model.layers.0.mlp.experts.down_proj: one array for all experts of a layer
FUSED = re.compile(rf"(?P<layer>(?:.*\.)?)experts\.(?:.*\.)?{DOWN}(?:\.weight)?")
Read = Callable[[], Any]  # returns an array or a tensor


def expert_similarity(model: Any, *, rows: int = ROWS, seed: int = 0, progress: Progress = iter) -> Analysed:
    """Compare the down-projections of each layer's experts, pair by pair.

    Two measures: the cosine of the weights as vectors, and linear centred kernel alignment (CKA) of the
    matrices, with outputs as examples and inner neurons as features. The cosine needs neurons in the same
    order, as in experts that were copied from one dense layer. CKA does not depend on their order. CKA of
    random matrices is far above 0 and depends on their shape, so chance is the value for random normal
    matrices of the same shape: with n rows and p columns about 1 / (1 + n / p).

    Args:
        model: a PyTorch model, or the path of a .safetensors file or of a folder of these.
        rows: random rows (outputs) of each matrix that are used, the same for all experts.
        seed: the seed of the rows and of the random matrices.
        progress: wraps the layers while they are compared, for example `tqdm`.

    Returns:
        A table with the mean over all pairs of each layer (item ""), the largest value (item "largest"), and
        the most similar pairs (items "i+j"); a picture and sentences.

    Raises:
        ValueError: if no experts are found, an expert is missing, or an argument is invalid.

    Example:
        >>> found = modtf.expert_similarity("OLMoE-1B-7B")  # doctest: +SKIP
        >>> found.table.to_csv("similarity.csv")  # doctest: +SKIP

    Source of CKA: Kornblith, Norouzi, Lee and Hinton (2019), 'Similarity of Neural Network Representations
    Revisited', arXiv:1905.00414.
    """
    check_integer("rows", rows, 2)
    check_integer("seed", seed, 0)
    layers = down_projections(model)
    table: list[dict[str, Any]] = []
    shapes: dict[tuple[int, ...], dict[str, Spread]] = {}
    for number, layer in enumerate(progress(layers)):
        pairs, shape = similarities(list(matrices(layer, rows, seed)))
        if shape not in shapes:
            generator = np.random.default_rng(seed)
            drawn = [generator.standard_normal(shape, np.float32) for _ in range(RANDOM)]
            shapes[shape] = {name: Spread.estimate(values) for name, values in similarities(drawn)[0].items()}
        table += similarity_rows(number, pairs, shapes[shape], np.random.default_rng(seed))
    frame, names = pd.DataFrame(table), Names(layers=[layer.name for layer in layers])
    picture = draw_measures(
        "similarity", "Expert similarity", frame[frame["item"] == ""], [(COSINE,), (CKA,)], names
    )
    notes = [f"Up to {rows} rows of each matrix are used. Linear CKA depends on their number."]
    most = max(len(layer.read) for layer in layers)
    notes += [
        f"{layer.name} has fewer experts than other layers, {len(layer.read)} of {most}. If this is one "
        "shard of a checkpoint, give the folder that holds all of them."
        for layer in layers
        if len(layer.read) < most
    ][:1]
    what = "hold experts more alike than random ones"
    sentences = [beyond_chance(frame, measure, what, names) for measure in (COSINE, CKA)]
    return Analysed(frame, tuple(sentences), (picture,), tuple(notes))


def similarities(experts: list[NDArray[Any]]) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Return the cosine and linear CKA of all pairs `[E, E]`, and the shape of a matrix."""
    flat = np.stack([expert.ravel() for expert in experts])
    kernels = []
    for expert in experts:
        centred = expert - expert.mean(axis=0)
        kernels.append((centred @ centred.T).ravel())
    found = {}
    for name, vectors in ((COSINE, flat), (CKA, np.stack(kernels))):
        length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)
        vectors /= length
        found[name] = (vectors @ vectors.T).astype(np.float64)
    return found, experts[0].shape


@dataclass(frozen=True)
class Spread:
    """The mean and spread of the similarities of random matrices.

    The pairs of one matrix vary together: the similarity of i and j is the mean plus a_i + a_j + e_ij.
    """

    mean: float  # over all pairs
    of_mean: float  # the standard error of the mean
    of_matrix: float  # the standard deviation of a
    of_pair: float  # the standard deviation of e

    @classmethod
    def estimate(cls, matrix: Array) -> "Spread":
        """Estimate the spread from the similarities of all pairs `[N, N]` of at least four matrices."""
        number, (i, j) = len(matrix), np.triu_indices_from(matrix, 1)
        values = matrix[i, j]
        mean = values.mean()
        effect = ((matrix.sum(axis=1) - np.diag(matrix)) / (number - 1) - mean) * (number - 1) / (number - 2)
        pair = ((values - mean - effect[i] - effect[j]) ** 2).sum() / (len(values) - number)
        own = max(effect.var(ddof=1) - pair / (number - 2), 0.0)
        of_mean = 4.0 * own / number + pair / len(values)
        return cls(float(mean), *np.sqrt([of_mean, own, pair]).tolist())

    def draw(self, draws: int, number: int, generator: np.random.Generator) -> Array:
        """Return the similarities of the pairs of `number` random matrices `[draws, pairs]`."""
        i, j = np.triu_indices(number, 1)
        own = generator.normal(scale=self.of_matrix, size=(draws, number))
        mean = generator.normal(self.mean, self.of_mean, size=(draws, 1))
        return mean + own[:, i] + own[:, j] + generator.normal(scale=self.of_pair, size=(draws, len(i)))


def similarity_rows(
    layer: int, pairs: dict[str, Array], chance: dict[str, Spread], generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Return the rows of a layer, from the similarities of all pairs and their mean and spread by chance."""
    rows = []
    for name, matrix in pairs.items():
        i, j = np.triu_indices_from(matrix, 1)
        values = matrix[i, j]
        drawn = chance[name].draw(FEWEST, len(matrix), generator)
        best = np.argsort(-values, kind="stable")[:PAIRS]
        value: dict[Any, float] = {name: float(values.mean()), (name, "largest"): float(values.max())}
        by_chance = [{name: one.mean(), (name, "largest"): one.max()} for one in drawn]
        rows += rows_of(layer, value, chance=by_chance)
        rows += rows_of(layer, {(name, f"{i[one]}+{j[one]}"): float(values[one]) for one in best})
    return rows


@dataclass(frozen=True)
class Weights:
    """The down-projections of the experts of one layer."""

    name: str  # the layer's name in the model
    read: tuple[Read, ...]  # return the matrix [hidden, inner] of each expert


def down_projections(model: Any) -> list[Weights]:
    """Return the down-projections of all layers with experts, in the order of their numbers.

    Args:
        model: a `torch.nn.Module`, or the path of a .safetensors file or of a folder of these.

    Raises:
        ValueError: if there are no experts, a file is damaged, an expert is missing, or the axes of fused
            weights are ambiguous.
    """
    arrays = _arrays(model)
    found: dict[str, dict[int, Read]] = {}
    for name, (shape, read) in arrays.items():
        if match := EACH.fullmatch(name):
            found.setdefault(match["layer"], {})[int(match["expert"])] = read
        elif (match := FUSED.fullmatch(name)) and len(shape) == 3:
            turned = _is_turned(name, match["layer"], shape, {n: size for n, (size, _) in arrays.items()})
            each = {i: partial(_one, read, i, turned) for i in range(shape[0])}
            found.setdefault(match["layer"], {}).update(each)
    for name, experts in found.items():
        if missing := sorted(set(range(max(experts) + 1)) - set(experts)):
            raise ValueError(
                f"{name}experts lacks the experts {reprlib.repr(missing)}; expected 0 to {max(experts)}. "
                "This is probably one shard of a checkpoint: give the folder that holds all of them."
            )
    layers = {name: experts for name, experts in found.items() if len(experts) > 1}
    if not layers:
        raise ValueError(
            f"{model if isinstance(model, str | Path) else type(model).__name__} has no layer with two or "
            "more experts; expected weights named as in model.layers.0.mlp.experts.0.down_proj.weight."
        )
    return [
        Weights(name.rstrip("."), tuple(layers[name][expert] for expert in sorted(layers[name])))
        for name in sorted(layers, key=by_number)
    ]


def _arrays(model: Any) -> dict[str, tuple[tuple[int, ...], Read]]:
    """Return the shape of each array of a model or of its files, and a function that reads it."""
    if not isinstance(model, str | Path):
        if not hasattr(model, "named_parameters"):
            raise ValueError(
                f"model is a {type(model).__name__}; expected a torch.nn.Module, or the path of safetensors."
            )
        return {name: (tuple(one.shape), one.detach) for name, one in model.named_parameters()}
    files = Source(model).files(ENDING)
    if not files:
        raise ValueError(f"{model} holds no {ENDING} file.")
    found = {}
    for file in files:
        with explained(f"{file} cannot be read"):
            found.update(tensors_of(file))
    return found


def _is_turned(name: str, layer: str, shape: tuple[int, ...], shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether a fused array is [experts, inner, hidden] and not [experts, hidden, inner].

    The router of the layer has one row of the hidden size for each expert.
    """
    routers = (size for other, size in shapes.items() if other.startswith(layer) and len(size) == 2)
    sizes = {size[1] for size in routers if size[0] == shape[0]} & set(shape[1:])
    if len(sizes) != 1 or shape[1] == shape[2]:
        raise ValueError(
            f"{name} has shape {list(shape)}. Which of the last two axes is the hidden size is unclear: "
            "expected different sizes, and a router with weights [experts, hidden]. Save one matrix for each "
            "expert."
        )
    return shape[2] in sizes


def _one(read: Read, expert: int, turned: bool) -> Any:
    matrix = read()[expert]
    return matrix.T if turned else matrix


def matrices(weights: Weights, rows: int, seed: int) -> Iterator[Array]:
    """Yield a sample of the rows of each expert's matrix, the same rows for all, `[rows, inner]`.

    Raises:
        ValueError: if a matrix has another shape than the first, or holds no finite numbers.
    """
    chosen, first = None, None
    for expert, read in enumerate(weights.read):
        matrix = read()
        if first is None:
            first = tuple(matrix.shape)
            order = np.random.default_rng(seed).permutation(first[0])
            chosen = np.sort(order[:rows])
        if tuple(matrix.shape) != first or matrix.ndim != 2:
            raise ValueError(
                f"Expert {expert} of {weights.name} has weights of shape {list(matrix.shape)}; expected "
                f"{list(first)} as expert 0."
            )
        some = _as_floats(matrix[chosen])
        if some is None:
            raise ValueError(
                f"Expert {expert} of {weights.name} has weights of type {matrix.dtype}; expected floats of "
                "16 bits or more. Dequantise the model."
            )
        if not np.isfinite(some).all():
            raise ValueError(f"Expert {expert} of {weights.name} has weights that are not finite.")
        yield some


def _as_floats(values: Any) -> Array | None:
    """Return an array or a tensor as float32; None if it is of no float type of 16 bits or more."""
    if hasattr(values, "is_floating_point"):  # a tensor
        usable = values.is_floating_point() and values.element_size() > 1
        return values.float().cpu().numpy() if usable else None
    floats = from_bfloat16(np.ascontiguousarray(values))
    return floats.astype(np.float32) if floats.dtype.kind == "f" else None
