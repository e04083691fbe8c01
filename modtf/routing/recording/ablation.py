"""Measure what it costs the tokens of each label when one expert is switched off."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from modtf.routing.recording.recorder import Recorder

LEVEL = 0.95


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
        self.pairs = everything if pairs is None else [(int(place), int(expert)) for place, expert in pairs]
        for pair in self.pairs:
            if pair not in everything:
                raise ValueError(
                    f"ablate holds {pair}; expected pairs (layer, expert) of {len(sizes)} layers with "
                    f"{', '.join(map(str, sizes))} experts."
                )
        self._documents: list[NDArray[np.int64]] = []  # the documents [D] of each batch
        self._losses: list[NDArray[np.float64]] = []  # their losses [D, 1 + pairs, R]
        self._counts: list[NDArray[np.float64]] = []  # their tokens [D, R]
        self._sent: list[NDArray[np.float64]] = []  # tokens sent to each expert, one [pairs, R] per batch

    def add(self, run: Callable[[], Any], targets: Any, output: Any) -> None:
        """Add the batch that the model has just run on. A token counts if the next one is in its document.

        Args:
            run: a function that runs the model on the batch once more.
            targets: the tokens of the batch `[B, N]`.
            output: the model's output for the batch.
        """
        keep, values, chosen = self.recorder.last[""]
        labels, documents = np.zeros(keep.shape, np.int64), np.zeros(keep.shape, np.int64)
        labels[keep], documents[keep] = values.get("labels", 0), values["documents"]
        counted = keep[:, 1:] & keep[:, :-1] & (documents[:, 1:] == documents[:, :-1])
        num_labels = int(labels.max()) + 1
        losses = [_losses(output, targets[:, 1:])]
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
        self._losses.append(np.stack(sums, axis=1))
        self._counts.append(
            np.bincount(cell, minlength=len(ids) * num_labels).reshape(shape).astype(np.float64)
        )
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
        num_labels = max(part.shape[-1] for part in self._losses)
        losses = self._by_document(self._losses, num_labels)  # [D, 1 + pairs, R]
        counts = self._by_document(self._counts, num_labels)  # [D, R]
        sent = np.sum([_wider(part, num_labels) for part in self._sent], axis=0)  # [pairs, R]
        number, total = len(counts), counts.sum(axis=0)
        freedom = number - 1 if number > 1 else np.nan
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = losses[:, 0].sum(axis=0) / total
            changes = losses[:, 1:] - losses[:, :1]
            change = changes.sum(axis=0) / total
            apart = changes - change * counts[:, np.newaxis]  # residuals of a ratio of sums over documents
            spread = np.sqrt((apart**2).sum(axis=0) * number / max(number - 1, 1)) / total
            share = sent / sent.sum(axis=1, keepdims=True)
            bits = np.log2(share / (total / total.sum()))
        half = stats.t.ppf(0.5 + LEVEL / 2, freedom) * spread
        low, high = change - half, change + half
        rows = [
            (*pair, names[r] if names else r, int(total[r]), int(sent[i, r]), bits[i, r], loss[r],
             change[i, r], low[i, r], high[i, r])
            for i, pair in enumerate(self.pairs)
            for r in np.flatnonzero(total).tolist()
        ]  # fmt: skip
        head = ["layer", "expert", "label", "tokens", "sent", "bits", "loss", "change", "low", "high"]
        return pd.DataFrame(rows, columns=head)

    def _by_document(self, parts: Sequence[NDArray[np.float64]], num_labels: int) -> NDArray[np.float64]:
        """Return the sums `[D, ..., R]` of each document, whose tokens may be in several batches."""
        ids, place = np.unique(np.concatenate(self._documents), return_inverse=True)
        values = np.concatenate([_wider(part, num_labels) for part in parts])
        sums = np.zeros((len(ids), *values.shape[1:]))
        np.add.at(sums, place, values)
        return sums


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
