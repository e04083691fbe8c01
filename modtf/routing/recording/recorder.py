"""Keep the routing of the tokens of any forward passes, to save and measure it."""

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from modtf.base.checks import check_path
from modtf.base.files import check_writable, scratch_folder
from modtf.routing.measuring import LayerMeasures, measure_activations
from modtf.routing.measuring.damage import kept_rows
from modtf.routing.names import check_one_kind
from modtf.routing.recording.layers import RoutedLayer, find_layers
from modtf.routing.recording.tokens import Note, Rows
from modtf.routing.recording.watch import Runs, Stream, Watcher

BUFFERED = 2**15  # tokens held in memory before they are written
PART = 2**18  # tokens copied at a time
Run = tuple[int, int]  # a layer, and the number of its run within a forward pass
LETTERS = 24  # the longest text of a token that is saved


class TokenArrays:
    """Arrays of tokens that arrive in chunks, kept in a scratch folder so that memory does not grow."""

    def __init__(self, scratch: Path):
        self.scratch = scratch
        self.num_tokens = 0
        self.first: dict[Run, int] = {}  # layer -> the first token of the pass in which it first ran
        self._chunks: dict[str, list[NDArray[Any]]] = {}
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._waiting = 0

    def add(self, layers: Mapping[Run, tuple[NDArray[Any], NDArray[Any]]], **values: NDArray[Any]) -> None:
        """Add tokens.

        Args:
            layers: experts and weights `[tokens, k]` of each run of a layer. If a layer ran before but does
                not run now, it routes none of these tokens, and their experts are -1.
            values: arrays `[tokens]` by name; the names are the same in every call.
        """
        size = len(next(iter(values.values())))
        for run, (experts, weights) in layers.items():
            self.first.setdefault(run, self.num_tokens)
            self._put(f"experts.{run[0]}.{run[1]}", experts)
            self._put(f"weights.{run[0]}.{run[1]}", weights)
        for run in self.first.keys() - layers.keys():
            for kind, rest in (("experts", -1), ("weights", 0)):
                name = f"{kind}.{run[0]}.{run[1]}"
                dtype, shape = self._kinds[name]
                self._put(name, np.full((size, *shape), rest, dtype))
        for name, chunk in values.items():
            self._put(name, chunk)
        self.num_tokens += size
        self._waiting += size
        if self._waiting >= BUFFERED:
            self._flush()

    def _put(self, name: str, chunk: NDArray[Any]) -> None:
        _, shape = self._kinds.setdefault(name, (chunk.dtype, chunk.shape[1:]))
        if chunk.shape[1:] != shape:
            raise ValueError(
                f"A layer chose {shape[-1]} experts per token before and {chunk.shape[-1]} now; expected "
                "the same number."
            )
        self._chunks.setdefault(name, []).append(chunk)

    def _flush(self) -> None:
        for name, chunks in self._chunks.items():
            with (self.scratch / name).open("ab") as file:
                np.concatenate(chunks).astype(self._kinds[name][0], copy=False).tofile(file)
        self._chunks, self._waiting = {}, 0

    def read(self, name: str) -> NDArray[Any]:
        """Return an array `[tokens, ...]`, mapped into memory."""
        self._flush()
        dtype, shape = self._kinds[name]
        path = self.scratch / name
        if not path.exists() or not path.stat().st_size:
            return np.zeros((0, *shape), dtype)
        return np.memmap(path, dtype, "r").reshape(-1, *shape)

    def join(self, kind: str, order: NDArray[np.int64] | None, path: Path) -> None:
        """Write experts or weights of all layers, `[layers, tokens, k]`, as a .npy file.

        Tokens before a layer's first run have experts -1. Layers with fewer experts per token than others
        are padded with -1.
        """
        runs = sorted(self.first)
        parts = [self.read(f"{kind}.{layer}.{run}") for layer, run in runs]
        rest = -1 if kind == "experts" else 0
        shape = (len(runs), self.num_tokens, max(part.shape[1] for part in parts))
        whole = np.lib.format.open_memmap(path, "w+", parts[0].dtype, shape)
        for row, run, part in zip(whole, runs, parts, strict=True):
            first = self.first[run]
            for start in range(0, self.num_tokens, PART):
                tokens = np.arange(start, min(start + PART, self.num_tokens))
                places = (tokens if order is None else order[tokens]) - first
                row[tokens] = rest
                ran = places >= 0
                row[tokens[ran], : part.shape[1]] = part[places[ran]]
        whole.flush()

    def save(self, folder: Path, others: Mapping[str, NDArray[Any]]) -> None:
        """Write all arrays into an existing folder. The tokens of each document are contiguous."""
        documents = self.read("documents")
        in_order = bool((np.diff(documents) >= 0).all())
        order = None if in_order else np.argsort(documents, kind="stable")
        for kind in ("experts", "weights"):
            self.join(kind, order, folder / f"{kind}.npy")
        for name in self._kinds:
            if "." not in name:
                values = self.read(name)
                np.save(folder / f"{name}.npy", values if order is None else values[order])
        for name, whole in others.items():
            np.save(folder / f"{name}.npy", whole)


@contextlib.contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `out` when the block ends without an error."""
    folder = check_new_folder(out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent) as scratch:
        made = scratch / folder.name
        made.mkdir()
        yield made
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
        made.rename(folder)


def check_new_folder(out: str | Path) -> Path:
    """Return the absolute path of a folder that can be made; `ValueError` if it cannot."""
    check_path("out", out)
    folder = Path(out).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out={out} exists already. Choose a new folder, or remove it.")
    check_writable(folder.parent)
    return folder


class Recorder:
    """The routing of a model's tokens, recorded while the `with` block runs; see `record`.

    Args:
        model, routers, top_k: as for `record`.
        scratch: the folder that holds tokens on disk; by default the system's temporary folder.
    """

    def __init__(self, model: Any, routers: Any = None, top_k: int | None = None, scratch: Any = None):
        self.layers = find_layers(model, routers, top_k)
        self.watcher = Watcher(model, self.layers, self._finish)
        self.last: dict[str, tuple[NDArray[np.bool_], dict[str, NDArray[Any]], dict[Any, Any]]] = {}
        self._arrays: dict[str, TokenArrays] = {}
        self._rows: dict[str, Rows] = {}
        self._note = Note()
        self._ends = _ends(model)
        self._watching = ExitStack()
        self._kept = ExitStack()
        self._scratch = Path(self._kept.enter_context(scratch_folder(scratch)))
        self.close = weakref.finalize(self, self._kept.close)

    def __enter__(self) -> "Recorder":
        self._watching.enter_context(self.watcher.watching())
        return self

    def __exit__(self, *error: Any) -> None:
        self._watching.close()

    def next(self, labels: Any = None, documents: Any = None) -> None:
        """State the labels and documents of the tokens of the next forward pass.

        Tokens that a cache continues, as in `generate()`, keep the labels and documents of their rows.

        Args:
            labels: `[B]` or `[B, N]`, integers or names; for an encoder-decoder model `[B]`, or a mapping
                from "encoder" and "decoder" to `[B]` or `[B, N]`.
            documents: `[B]` or `[B, N]`, integers from 0 or names; by default each row is a document. Tokens
                of one number or name are one document, so numbers are unique over all passes.
        """
        self._note = Note(labels, documents)

    def _finish(self, streams: list[Stream]) -> None:
        self.last = {}
        for stream in streams:
            if stream.name not in self._arrays:
                folder = self._scratch / (stream.name or "tokens")
                folder.mkdir()
                self._arrays[stream.name] = TokenArrays(folder)
                self._rows[stream.name] = Rows(stream.name, self._ends)
            keep, values = self._rows[stream.name].add(stream, self._note)
            chosen = as_arrays(self.layers, stream.runs, keep.ravel())
            self._arrays[stream.name].add(chosen, **values)
            self.last[stream.name] = keep, values, chosen

    def save(self, folder: str | Path, *, tokenizer: Any = None) -> Path:
        """Write the recorded routing into a new folder that `modtf measure` reads.

        Args:
            folder: the new folder. For an encoder-decoder model, read its folders "encoder" and "decoder".
            tokenizer: if given, the texts of the tokens are written too, and the report shows them.

        Returns:
            The folder: `experts`, `weights` `[layers, tokens, k]`, `num_experts`, `tokens`, `positions`,
            `documents` `[tokens]`, `layer_names`. With labels also `labels`, and `label_names` if the labels
            are names. With a tokenizer also `token_names`. A token that a layer did not route, or dropped,
            has the experts -1.

        Raises:
            ValueError: if no tokens were recorded, layers differ in experts, or the folder is not empty.
        """
        with new_folder(folder) as made:
            self.write(made, self.others(tokenizer))
        return Path(folder)

    def write(self, folder: Path, others: Mapping[str, Mapping[str, NDArray[Any]]]) -> None:
        """Write the arrays of every stream into an existing folder."""
        for name in others:
            part = folder / name
            part.mkdir(exist_ok=True)
            self._arrays[name].save(part, others[name])

    def others(self, tokenizer: Any = None) -> dict[str, dict[str, NDArray[Any]]]:
        """Return the arrays of every stream that have no tokens axis; raise `ValueError` without tokens."""
        if not any(arrays.num_tokens for arrays in self._arrays.values()):
            raise ValueError("No tokens were recorded, because no forward pass ran or all tokens are masked.")
        return {name: self._others(name, tokenizer) for name in self._arrays}

    def _others(self, stream: str, tokenizer: Any) -> dict[str, NDArray[Any]]:
        runs = sorted(self._arrays[stream].first)
        sizes = {self.layers[layer].num_experts for layer, _ in runs}
        if len(sizes) > 1:
            raise ValueError(
                f"The layers have {sorted(map(str, sizes))} experts; expected the same number. Record them "
                "separately by routers='PATTERN'."
            )
        names = layer_names(self.layers, runs)
        others = {"num_experts": np.array(sizes.pop()), "layer_names": np.array(names)}
        if tokenizer is not None:
            words = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
            others["token_names"] = np.array([word[:LETTERS] for word in words])
        if self._rows[stream].labels.names:
            others["label_names"] = np.array(list(self._rows[stream].labels.names))
        return others

    def measure(
        self, labels: ArrayLike | str | None = None, *, stream: str | None = None, **options: Any
    ) -> list[LayerMeasures]:
        """Measure the recorded routing.

        Args:
            labels: one per token or one per document, integers or names; "tokens" or "positions"; by default
                the labels passed to `next`. Documents are in the order of their numbers, or if they have
                names, in the order in which these first occur.
            stream: "encoder" or "decoder", if the model has both.
            options: as for `modtf.measure_activations`.

        Raises:
            ValueError: if labels do not fit the tokens, or no tokens were recorded.
        """
        streams = self.others()
        name = next(iter(streams)) if stream is None and len(streams) == 1 else stream
        if name not in streams:
            raise ValueError(f"stream={stream!r} is not known; expected one of {', '.join(streams)}.")
        others = streams[name]
        with scratch_folder(self._scratch) as folder:
            self._arrays[name].save(Path(folder), {})
            arrays = {path.stem: np.load(path, mmap_mode="r") for path in Path(folder).glob("*.npy")}
            keep = kept_rows(list(arrays["experts"]), arrays["documents"], arrays.get("tokens"))
            chosen = _labels(labels, arrays, others)
            return measure_activations(
                experts=arrays["experts"][:, keep],
                weights=arrays["weights"][:, keep],
                num_experts=int(others["num_experts"]),
                labels=None if chosen is None else np.asarray(chosen)[keep],
                documents=arrays["documents"][keep],
                **options,
            )


def as_arrays(layers: Sequence[RoutedLayer], runs: Runs, keep: NDArray[np.bool_]) -> dict[Any, Any]:
    """Return experts and weights `[tokens, k]` of every run as arrays, with one transfer for each."""
    import torch

    device = next(iter(runs.values()))[0].device
    experts, weights = (
        torch.cat([both[which].to(device, kind).reshape(-1) for both in runs.values()]).cpu().numpy()
        for which, kind in ((0, torch.int32), (1, torch.float32))
    )
    experts = np.where(weights == 0, np.int32(-1), experts)  # weight 0 means that the expert does not run
    arrays, start = {}, 0
    for (layer, run), (chosen, _) in runs.items():
        part = slice(start, start + chosen.numel())
        start = part.stop
        ids = experts[part].reshape(chosen.shape)[keep]
        size = layers[layer].num_experts
        if size is not None and ids.max(initial=-1) >= size:
            raise ValueError(
                f"{layers[layer].name} returned {ids.max()}, but has {size} experts, so its output is not "
                "experts. Name other modules by routers='PATTERN'."
            )
        arrays[layer, run] = ids, weights[part].reshape(chosen.shape)[keep]
    return arrays


def layer_names(layers: Sequence[RoutedLayer], runs: Iterable[tuple[int, int]]) -> list[str]:
    """Return a name for each run of a layer; a layer that runs once keeps its own name."""
    runs = list(runs)
    several = {layer for layer, run in runs if run}
    return [layers[layer].name + f" run {run + 1}" * (layer in several) for layer, run in runs]


def _labels(labels: Any, arrays: Mapping[str, NDArray[Any]], others: Mapping[str, NDArray[Any]]) -> Any:
    """Return one label per token."""
    if labels is None:
        recorded, names = arrays.get("labels"), others.get("label_names")
        return recorded if recorded is None or names is None else names[recorded]
    if isinstance(labels, str):
        if labels not in ("tokens", "positions"):
            raise ValueError(f"labels={labels!r} is not valid; expected an array, 'tokens' or 'positions'.")
        return arrays[labels]
    check_one_kind(labels, "labels")
    array, documents = np.asarray(labels), arrays["documents"]
    number = int(documents.max()) + 1
    if array.shape not in ((number,), documents.shape):
        raise ValueError(
            f"labels have shape {array.shape}; expected ({number},), one for each document, or "
            f"{documents.shape}, one for each token."
        )
    return array if array.shape == documents.shape else array[documents]


def _ends(model: Any) -> list[int]:
    """Return the tokens that end a model's generation."""
    configs = [one.generation_config for one in model.modules() if hasattr(one, "generation_config")]
    ends = next((config.eos_token_id for config in configs if config is not None), None)
    return [] if ends is None else ends if isinstance(ends, list) else [ends]
