"""Runs a PyTorch model over text and writes down where its routers sent every token: `modtf.collect`."""

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.checks import check_path
from modtf.extras import need
from modtf.files import check_writable, scratch_folder, write_table
from modtf.routing.measuring.checks import Numbers
from modtf.routing.recording.ablation import Ablation
from modtf.routing.recording.layers import RoutedLayer, find_layers, watched

IDS, MASK, DOCUMENTS = "input_ids", "attention_mask", "documents"
LETTERS = 24  # of a token
Batch = Mapping[str, Any]
Labels = str | Callable[[Batch], Any] | None


def collect(
    model: Any,
    batches: Iterable[Any],
    out: str | Path,
    *,
    labels: Labels = None,
    routers: str | Sequence[str] | None = None,
    top_k: int | None = None,
    tokenizer: Any = None,
    ablate: bool | Sequence[tuple[int, int]] = False,
) -> Path:
    """Writes which experts a PyTorch model sends its tokens to, into a folder that `modtf measure` reads.

    The model runs as it is, in evaluation mode and without gradients; hooks look on. Models of Hugging Face's
    `transformers` (from version 5 on) need nothing else; of others say by `routers` where to look.

    Args:
        model: a `torch.nn.Module`.
        batches: of `input_ids` `[B, N]`, or mappings with these and what else the model is called with, such
            as `attention_mask`, whose zeros are left out. `documents` `[B, N]` says which tokens belong
            together, where a row holds several; by default each row is one.
        out: a folder to be made.
        labels: of tokens, for `modtf measure`: the name of something in a batch, `[B]` or `[B, N]`, integers
            or names, such as "domain"; or a function from a batch to that. Tokens themselves and positions
            are always written: `--labels=tokens`, `--labels=positions` (0, 1, 2 to 3, 4 to 7, ...).
        routers: see `find_layers`; patterns of the names of modules that put out logits or experts.
        top_k: how many experts count, where routers put out logits; by default as the configuration says.
        tokenizer: its words for tokens are written, too, for the page to show.
        ablate: switch experts off, one at a time, (layer, expert) each or all of them, and write what it
            costs the tokens of each label: `ablation.csv`. Every one runs the model once more. The model must
            put out `logits` `[B, N, V]` of the next tokens.

    Returns:
        The folder: `experts`, `weights` `[layers, tokens, k]`, `num_experts`, `tokens`, `positions`,
        `documents` `[tokens]`, `layer_names`; with labels `labels` and, of names, `label_names`; with a
        tokenizer `token_names`.

    Raises:
        ValueError: where the model has no routed layers that can be seen, layers differ in their experts, a
            label or a mask does not fit its tokens, or `out` is there already.

    Example:
        >>> model = AutoModelForCausalLM.from_pretrained("allenai/OLMoE-1B-7B-0924")  # doctest: +SKIP
        >>> modtf.collect(model, batches, "routing", labels="domain")  # doctest: +SKIP
    """
    torch = need("torch", "hf", "modtf.collect")
    layers = find_layers(model, routers, top_k)
    names, document, ablation = Numbers("labels"), 0, None
    with token_arrays(out) as arrays, ExitStack() as stack, watched(layers), torch.inference_mode():
        stack.callback(model.train, model.training)  # in training mode again, where it was
        model.eval()
        for number, given in enumerate(batches):
            batch = given if isinstance(given, Mapping) else {IDS: given}
            inputs = _inputs(model, batch, number)
            keep = _array(inputs.get(MASK, torch.ones_like(inputs[IDS]))).astype(bool)
            for layer in layers:
                layer.seen = None
            output = model(**inputs)
            experts, weights = (_stacked(layers, which, keep, number) for which in (0, 1))
            rows = document + np.arange(len(keep))[:, np.newaxis]
            document += len(keep)
            chunk = {
                "experts": experts.astype(np.int32),
                "weights": weights.astype(np.float32),
                "tokens": _array(inputs[IDS])[keep].astype(np.int64),
                "positions": np.log2(np.maximum(keep.cumsum(axis=1), 1))[keep].astype(np.int64),
                DOCUMENTS: _per_token(batch.get(DOCUMENTS, rows), keep, DOCUMENTS)[keep],
            }
            if labels is not None:
                if not callable(labels) and labels not in batch:
                    raise ValueError(f"labels={labels!r} is not in a batch, which has {', '.join(batch)}.")
                found = labels(batch) if callable(labels) else batch[labels]
                chunk["labels"] = names.of(_per_token(found, keep, "labels")[keep], keep.sum())
            arrays.add(**chunk)
            if ablate is not False:
                ablation = ablation or Ablation(layers, None if ablate is True else ablate)
                classes = np.zeros(keep.shape, np.int64)
                classes[keep] = chunk.get("labels", 0)
                ablation.add(model, inputs, output, keep, classes)
        if not arrays.num_tokens:
            raise ValueError("There were no tokens: batches is empty, or all of it is masked.")
        sizes = {layer.num_experts for layer in layers}
        if len(sizes) > 1:
            raise ValueError(
                f"The layers have {sorted(map(str, sizes))} experts; collect them apart, by routers."
            )
        arrays.whole["num_experts"] = np.array(sizes.pop())
        arrays.whole["layer_names"] = np.array([layer.name for layer in layers])
        if tokenizer is not None:
            words = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
            arrays.whole["token_names"] = np.array([word[:LETTERS] for word in words])
        if names.names:
            arrays.whole["label_names"] = np.array(list(names.names))
        if ablation is not None:
            write_table(arrays.folder / "ablation.csv", ablation.table(list(names.names)))
    return Path(out)


def _inputs(model: Any, batch: Batch, number: int) -> dict[str, Any]:
    """What the model is called with, where it is."""
    import torch

    if IDS not in batch:
        raise ValueError(f"Batch {number} has {', '.join(batch)}; expected {IDS} [B, N] among them.")
    device = next(model.parameters()).device
    accepted = set(inspect.signature(model.forward).parameters) - {"labels", DOCUMENTS}
    takes = {name: torch.as_tensor(value) for name, value in batch.items() if name in accepted}
    if takes[IDS].ndim != 2:
        raise ValueError(f"{IDS} of batch {number} have shape {tuple(takes[IDS].shape)}; expected [B, N].")
    return {name: value.to(device) for name, value in takes.items()}


def _stacked(layers: Sequence[RoutedLayer], which: int, keep: NDArray[np.bool_], number: int) -> NDArray[Any]:
    """Experts or weights of the tokens that count, `[tokens, layers, k]`."""
    found = []
    for layer in layers:
        if layer.seen is None:
            raise ValueError(f"{layer.name} did not run with batch {number}; say by routers which layers do.")
        values = _array(layer.seen[which])
        if len(values) != keep.size:
            raise ValueError(
                f"{layer.name} routed {len(values)} tokens of batch {number}, which has {keep.size}: what it "
                "routes is not the tokens, one after the other."
            )
        found.append(values[keep.ravel()])
    if len({values.shape for values in found}) > 1:
        raise ValueError(
            "Layers send a token to different numbers of experts; collect them apart, by routers."
        )
    return np.stack(found, axis=1)


def _array(values: Any) -> NDArray[Any]:
    """Of a tensor anywhere, in any precision."""
    import torch

    if not torch.is_tensor(values):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.is_floating_point() else values).numpy()


def _per_token(values: Any, keep: NDArray[np.bool_], what: str) -> NDArray[Any]:
    """Values `[B]` or `[B, N]` as `[B, N]`."""
    array = _array(values)
    shape = array.shape
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.ndim != 2 or array.shape[0] != keep.shape[0] or array.shape[1] not in (1, keep.shape[1]):
        raise ValueError(
            f"{what} have shape {shape}; expected {keep.shape[:1]} or {keep.shape}, as tokens have."
        )
    return np.broadcast_to(array, keep.shape)


class TokenArrays:
    """A folder of .npy files whose tokens come in chunks; memory does not grow with them."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.whole: dict[str, NDArray[Any]] = {}  # arrays without a tokens axis
        self.num_tokens = 0
        self._first: dict[str, NDArray[Any]] = {}  # of every array nothing, in its shape and type

    def add(self, **chunks: NDArray[Any]) -> None:
        """Adds tokens, `[tokens, ...]` of every array."""
        for name, chunk in chunks.items():
            first = self._first.setdefault(name, chunk[:0])
            with self._raw(name).open("ab") as file:
                chunk.astype(first.dtype, copy=False).tofile(file)
        self.num_tokens += len(chunk)

    def join(self) -> None:
        """Writes every array: layers first, where tokens `[tokens, layers, k]` came first."""
        for name, first in self._first.items():
            shape = (self.num_tokens, *first.shape[1:])
            tokens = np.memmap(self._raw(name), first.dtype, "r", shape=shape)
            np.save(self.folder / f"{name}.npy", np.moveaxis(tokens, 1, 0) if first.ndim == 3 else tokens)
            self._raw(name).unlink()
        for name, values in self.whole.items():
            np.save(self.folder / f"{name}.npy", values)

    def _raw(self, name: str) -> Path:
        return self.folder / f"{name}.raw"


@contextlib.contextmanager
def token_arrays(out: str | Path) -> Iterator[TokenArrays]:
    """Arrays in a folder that takes its name when the block ends without an error.

    Raises:
        ValueError: where it holds something already, or cannot be written.
    """
    check_path("out", out)
    folder = Path(out).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"out={out} is there already; name a new folder, or remove it.")
    check_writable(folder.parent)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with scratch_folder(folder.parent) as scratch:
        arrays = TokenArrays(scratch / folder.name)
        arrays.folder.mkdir()
        yield arrays
        arrays.join()
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()
        arrays.folder.rename(folder)
