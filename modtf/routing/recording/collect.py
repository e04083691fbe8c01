"""Run a PyTorch model over text and write where its routers sent every token: `modtf.collect`."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from modtf.base.files import write_table
from modtf.routing.recording.ablation import Ablation
from modtf.routing.recording.folder import check_new_folder, new_folder
from modtf.routing.recording.given import DECODER_IDS, IDS, argument_names
from modtf.routing.recording.layers import check_model
from modtf.routing.recording.recorder import Recorder
from modtf.routing.recording.training import evaluating

Batch = Mapping[str, Any]
Labels = str | Callable[[Batch], Any] | None
NOT_HANDED_ON = ("labels", "documents")


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
                if ablate is not False:
                    ablation = ablation or Ablation(recorder, None if ablate is True else ablate)
                    again = partial(model, *args, **inputs)
                    ablation.add(again, inputs.get(IDS, *args), output)
        others = recorder.others(tokenizer)
        with new_folder(out) as made:
            recorder.write(made, others)
            if ablation is not None:
                write_table(made / "ablation.csv", ablation.table(list(others[""].get("label_names", ()))))
    return Path(out)


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
            raise ValueError(
                f"{name} of batch {number} have shape {tuple(takes[name].shape)}; expected [B, N]."
            )
    if DECODER_IDS not in takes and getattr(getattr(outermost, "config", None), "is_encoder_decoder", False):
        raise ValueError(f"Batch {number} lacks {DECODER_IDS} [B, N], which an encoder-decoder model needs.")
    return ([], takes) if IDS in signatures[0].parameters else ([takes.pop(IDS)], takes)


def _warn_of_others(batch: Batch, inputs: Batch, labels: Labels, number: int) -> None:
    """Warn of numbers in a batch that are neither arguments of the model, nor labels or documents."""
    others = [
        name
        for name in batch
        if name not in (IDS, *inputs, labels, *NOT_HANDED_ON) and _are_numbers(batch[name])
    ]
    if others:
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
