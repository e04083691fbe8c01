"""Run a PyTorch model over text and write where its routers sent every token: `modtf.collect`."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from modtf.base.checks import check_integer
from modtf.base.files import write_table
from modtf.routing.measuring.estimates import ratio_half_width
from modtf.routing.recording.layers import check_model
from modtf.routing.recording.record import evaluating
from modtf.routing.recording.recorder import Recorder, check_new_folder, new_folder
from modtf.routing.recording.watch import DECODER_IDS, IDS, argument_names

Batch = Mapping[str, Any]
Labels = str | Callable[[Batch], Any] | None
NOT_HANDED_ON = ("labels", "documents")
LEVEL = 0.95


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
    """Write which experts a PyTorch model sends its tokens to, into a folder that `modtf measure` reads.

    The model runs unchanged, in evaluation mode and without gradients. This calls `modtf.record`.

    Args:
        model: a `torch.nn.Module`; see `modtf.record`.
        batches: tensors `input_ids` `[B, N]`, or mappings with `input_ids` and other arguments of the model.
            Other entries are not passed to the model; tensors and numbers among them give a warning.
            Tokens whose `attention_mask` is 0 are left out. By default each row is a document; if a row holds
            several, `documents` `[B, N]` says which tokens belong together: names, or numbers that are unique
            over all batches.
        out: a folder to be made.
        labels: the labels of tokens, for `modtf measure`: the key of a batch's entry such as "domain", `[B]`
            or `[B, N]`, integers or names; or a function from a batch to these. Tokens and positions are
            always written: `--labels=tokens`, `--labels=positions` (0, 1 to 2, 3 to 6, 7 to 14, ...).
        routers: patterns of the names of modules that return logits, or experts and weights.
        top_k: the number of experts per token, if routers return logits; by default the model's own.
        tokenizer: if given, the texts of the tokens are written too, and the report shows them.
        ablate: experts to switch off, one at a time: a sequence of (layer, expert), or all of them. The
            change in loss of each label is written to `ablation.csv`. Each expert needs one more run of the
            model, which must return `logits` `[B, N, V]` of the next tokens. Only next tokens of the same
            document count.

    Returns:
        The folder, as `Recorder.save` writes it.

    Raises:
        ValueError: if no routed layers are found, layers differ in their experts, a label or a mask does not
            fit its tokens, or `out` exists already.

    Example:
        >>> model = AutoModelForCausalLM.from_pretrained("allenai/OLMoE-1B-7B-0924")  # doctest: +SKIP
        >>> modtf.collect(model, batches, "routing", labels="domain")  # doctest: +SKIP
    """
    torch = check_model(model, "modtf.collect")
    pairs = _check_ablate(ablate)
    folder = check_new_folder(out)
    folder.parent.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(model, routers, top_k, scratch=folder.parent)
    ablation = None
    with ExitStack() as stack:
        stack.callback(recorder.close)
        with recorder, evaluating(model), torch.inference_mode():
            for number, batch_inputs in enumerate(batches):
                batch = batch_inputs if isinstance(batch_inputs, Mapping) else {IDS: batch_inputs}
                args, inputs = _inputs(model, recorder, batch, number)
                _warn_of_others(batch, inputs, labels, number)
                recorder.next(_labels_of(batch, labels), batch.get("documents"))
                output = model(*args, **inputs)
                if pairs != []:
                    ablation = ablation or Ablation(recorder, pairs)
                    again = partial(model, *args, **inputs)
                    ablation.add(again, inputs.get(IDS, *args), output)
        others = recorder.others(tokenizer)
        with new_folder(out) as made:
            recorder.write(made, others)
            if ablation is not None:
                write_table(made / "ablation.csv", ablation.table(list(others[""].get("label_names", ()))))
    return Path(out)


def _check_ablate(ablate: Any) -> list[tuple[int, int]] | None:
    """Return the pairs (layer, expert) to switch off; none for False, and None, for all, for True."""
    if isinstance(ablate, bool):
        return None if ablate else []
    rows = ablate if isinstance(ablate, Sequence) and not isinstance(ablate, str) else ()
    if not rows or not all(isinstance(row, Sequence) and len(row) == 2 for row in rows):
        raise ValueError(
            f"ablate={ablate!r} is not valid; expected True, or a list of pairs (layer, expert)."
        )
    return [(check_integer("ablate", layer, 0), check_integer("ablate", expert, 0)) for layer, expert in rows]


def _labels_of(batch: Batch, labels: Labels) -> Any:
    if labels is None:
        return None
    if callable(labels):
        return labels(batch)
    if labels not in batch:
        raise ValueError(f"labels={labels!r} is not a key of a batch; expected one of {', '.join(batch)}.")
    return batch[labels]


def _inputs(model: Any, recorder: Recorder, batch: Batch, number: int) -> tuple[list[Any], dict[str, Any]]:
    """Return the model's arguments, on its device: the entries of a batch that the model accepts."""
    import torch

    if IDS not in batch:
        raise ValueError(f"Batch {number} has the keys {', '.join(batch)}; expected {IDS} [B, N] among them.")
    device = next(model.parameters()).device
    outermost = next(iter(recorder.watcher.modules.values()))
    signatures = list(recorder.watcher.signatures.values())
    names = argument_names(signatures).difference(NOT_HANDED_ON)
    takes = {name: batch[name] for name in batch if name == IDS or name in names}
    for name, value in takes.items():
        if name in (IDS, DECODER_IDS) or not isinstance(value, bool | int | float | None):
            takes[name] = torch.as_tensor(value).to(device)
    for name in (IDS, DECODER_IDS):
        if name in takes and takes[name].ndim != 2:
            shape = tuple(takes[name].shape)
            raise ValueError(f"{name} of batch {number} have shape {shape}; expected [B, N].")
    if DECODER_IDS not in takes and getattr(getattr(outermost, "config", None), "is_encoder_decoder", False):
        raise ValueError(f"Batch {number} lacks {DECODER_IDS} [B, N], which an encoder-decoder model needs.")
    return ([], takes) if IDS in signatures[0].parameters else ([takes.pop(IDS)], takes)


def _warn_of_others(batch: Batch, inputs: Batch, labels: Labels, number: int) -> None:
    """Warn of numbers in a batch that are neither arguments of the model, nor labels or documents."""
    rest = [name for name in batch if name not in (IDS, *inputs, labels, *NOT_HANDED_ON)]
    if others := [name for name in rest if _are_numbers(batch[name])]:
        warnings.warn(
            f"Batch {number} has {', '.join(others)}, which the model does not take. If the model needs it, "
            "name it in the arguments of its forward method. If not, "
            + ("ignore this if your function `labels` reads it." if callable(labels) else "leave it out."),
            stacklevel=3,
        )


def _are_numbers(values: Any) -> bool:
    import torch

    try:
        return torch.is_tensor(values) or np.asarray(values).dtype.kind in "biuf"
    except ValueError:  # lists of several lengths
        return False


class Ablation:
    """Losses of the next token, by document, label, and expert that is switched off.

    Args:
        recorder: the recorder of a model that has run once.
        pairs: the experts to switch off, as (layer, expert); None: all experts.

    Raises:
        ValueError: if an expert does not exist, or the layers are not in one decoder that runs each once.
    """

    def __init__(self, recorder: Recorder, pairs: Sequence[tuple[int, int]] | None):
        self.recorder = recorder
        if list(recorder.last) != [""] or any(run for _, run in recorder.last[""][2]):
            raise ValueError(
                "ablate needs a decoder-only model whose layers run once per forward pass. Leave out ablate "
                "for other models."
            )
        self.runs = sorted(recorder.last[""][2])
        sizes = [int(recorder.layers[layer].num_experts or 0) for layer, _ in self.runs]
        everything = [(place, expert) for place, size in enumerate(sizes) for expert in range(size)]
        self.pairs = everything if pairs is None else pairs
        for pair in self.pairs:
            if pair not in everything:
                raise ValueError(
                    f"ablate holds {pair}; expected pairs (layer, expert) of {len(sizes)} layers with "
                    f"{', '.join(map(str, sizes))} experts."
                )
        self._documents: list[NDArray[np.int64]] = []  # the documents [D] of each batch
        self._sums: list[NDArray[np.float64]] = []  # their tokens, then their losses, [D, 2 + pairs, R]
        self._sent: list[NDArray[np.float64]] = []  # tokens sent to each expert, one [pairs, R] per batch

    def add(self, run: Callable[[], Any], targets: Any, output: Any) -> None:
        """Add the batch that the model has just run on. A token counts if the next one is in its document.

        `run` runs the model on the batch of tokens `targets` `[B, N]` once more; `output` is what it
        returned.
        """
        keep, values, chosen = self.recorder.last[""]
        labels, documents = np.zeros(keep.shape, np.int64), np.zeros(keep.shape, np.int64)
        labels[keep], documents[keep] = values.get("labels", 0), values["documents"]
        counted = keep[:, 1:] & keep[:, :-1] & (documents[:, 1:] == documents[:, :-1])
        num_labels = int(labels.max()) + 1
        losses = [np.ones(counted.shape), _losses(output, targets[:, 1:])]
        self.recorder.watcher.paused = True
        for place, expert in self.pairs:
            layer = self.recorder.layers[self.runs[place][0]]
            layer.off = expert
            try:
                losses.append(_losses(run(), targets[:, 1:]))
            finally:
                layer.off = None
        self.recorder.watcher.paused = False
        ids, document = np.unique(documents[:, :-1][counted], return_inverse=True)
        cell, shape = document * num_labels + labels[:, :-1][counted], (len(ids), num_labels)
        sums = [np.bincount(cell, one[counted], len(ids) * num_labels).reshape(shape) for one in losses]
        self._documents.append(ids)
        self._sums.append(np.stack(sums, axis=1))
        has_next = np.pad(counted, ((0, 0), (0, 1)))[keep]
        kept = labels[keep][has_next]
        experts = {place: chosen[self.runs[place]][0][has_next] for place in {p for p, _ in self.pairs}}
        went = [kept[(experts[place] == e).any(axis=1)] for place, e in self.pairs]
        self._sent.append(np.array([np.bincount(some, minlength=num_labels) for some in went], np.float64))

    def table(self, names: Sequence[str] = ()) -> pd.DataFrame:
        """Return how the loss of each label changes without each expert.

        Returns:
            One row per expert and label, with the columns layer, expert, label, tokens (with this label),
            sent (how many of them the expert gets), bits (log2 p(label | expert) / p(label)), loss (with all
            experts, in nats), change (of the loss, without this expert), low, high (the interval of the
            change over documents).
        """
        num_labels = max(part.shape[-1] for part in self._sums)
        ids, place = np.unique(np.concatenate(self._documents), return_inverse=True)
        sums = np.zeros((len(ids), 2 + len(self.pairs), num_labels))
        np.add.at(sums, place, np.concatenate([_wider(part, num_labels) for part in self._sums]))
        counts, losses = sums[:, 0], sums[:, 1:]
        sent = np.sum([_wider(part, num_labels) for part in self._sent], axis=0)  # [pairs, R]
        total = counts.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = losses[:, 0].sum(axis=0) / total
            changes = losses[:, 1:] - losses[:, :1]
            change = changes.sum(axis=0) / total
            half = ratio_half_width(changes - change * counts[:, np.newaxis], total, LEVEL)
            share = sent / sent.sum(axis=1, keepdims=True)
            bits = np.log2(share / (total / total.sum()))
        low, high = change - half, change + half
        rows = [
            (*pair, names[r] if names else r, int(total[r]), int(sent[i, r]), bits[i, r], loss[r],
             change[i, r], low[i, r], high[i, r])
            for i, pair in enumerate(self.pairs)
            for r in np.flatnonzero(total).tolist()
        ]  # fmt: skip
        head = ["layer", "expert", "label", "tokens", "sent", "bits", "loss", "change", "low", "high"]
        return pd.DataFrame(rows, columns=head)


def _losses(output: Any, targets: Any) -> NDArray[np.float64]:
    """Return the cross-entropy of the next token, `[B, N - 1]`, in nats."""
    from torch.nn.functional import cross_entropy

    logits = getattr(output, "logits", None)
    if logits is None:
        raise ValueError(
            "ablate needs a model whose output has `logits` [B, N, V], the logits of the next tokens."
        )
    flat = cross_entropy(logits[:, :-1].float().transpose(1, 2), targets, reduction="none")
    return np.asarray(flat.cpu().numpy(), np.float64)


def _wider(values: NDArray[np.float64], num_labels: int) -> NDArray[np.float64]:
    missing = num_labels - values.shape[-1]
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
