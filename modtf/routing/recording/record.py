"""Record which experts a PyTorch model sends its tokens to, around any forward passes: `modtf.record`."""

from collections.abc import Sequence
from typing import Any, overload

from modtf.routing.recording.layers import check_model
from modtf.routing.recording.recorder import Recorder
from modtf.routing.recording.training import Log, TrainingRecorder


@overload
def record(
    model: Any, *, routers: str | Sequence[str] | None = None, top_k: int | None = None
) -> Recorder: ...


@overload
def record(
    model: Any,
    *,
    every: int,
    log: Log = None,
    routers: str | Sequence[str] | None = None,
    top_k: int | None = None,
) -> TrainingRecorder: ...


def record(
    model: Any,
    *,
    every: int | None = None,
    log: Log = None,
    routers: str | Sequence[str] | None = None,
    top_k: int | None = None,
) -> Recorder | TrainingRecorder:
    """Record which experts a PyTorch model sends its tokens to, in all forward passes of a `with` block.

    The passes may be anything: an evaluation, `generate()` with prefill and decoding, a training loop. Hooks
    look on; the model runs as it is. What an attention mask leaves out, and what follows the end of a
    generated row, is not recorded. Compiled models run uncompiled while they are recorded.

    Args:
        model: a `torch.nn.Module`, also wrapped by PEFT, `torch.compile` or DistributedDataParallel. Models
            of Hugging Face's `transformers` (from version 5 on) need nothing else.
        every: in training, keep sums only, of some ten passes in so many, and log them every so many forward
            passes in training mode. Values of each layer: `max_violation`, `dead_experts` and `entropy` of
            the load; `adjusted_mutual_information` of experts and labels, if `next(labels=...)` was called
            before each pass; `saturation`, the share of the first sampled batch's experts that are those of
            the record before, for which that batch runs once more without gradients.
        log: where records go, with `every`: a folder for TensorBoard, a SummaryWriter, or a function that
            takes a dict, such as `wandb.log`. `TrainingRecorder.history` has them, too.
        routers: patterns of the names of modules that put out logits, or experts and weights: "*.gate".
        top_k: the number of experts per token, where routers put out logits.

    Returns:
        A `Recorder`: `next(labels=...)` within the block, `measure()` and `save(folder)` after it. With
        `every` a `TrainingRecorder`: `next(labels=...)` and `history`.

    Raises:
        ValueError: if no routed layers are found.

    Example:
        >>> with modtf.record(model) as recorder:  # doctest: +SKIP
        ...     model.generate(**tokenizer(prompts, return_tensors="pt", padding=True), max_new_tokens=100)
        >>> layers = recorder.measure(labels=domains)  # doctest: +SKIP
    """
    check_model(model, "modtf.record")
    if every is not None:
        return TrainingRecorder(model, every, log, routers, top_k)
    if log is not None:
        raise ValueError("log needs every=100, for example: it logs sums over a training loop.")
    return Recorder(model, routers, top_k)
