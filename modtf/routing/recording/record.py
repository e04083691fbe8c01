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

    Any passes can be recorded: an evaluation, `generate()` with prefill and decoding, a training loop. Hooks
    only observe; they do not change the model's outputs. Tokens that an attention mask leaves out, and tokens
    after the end of a generated row, are not recorded. Compiled models run uncompiled meanwhile.

    Args:
        model: a `torch.nn.Module`, also wrapped by PEFT, `torch.compile` or DistributedDataParallel. Models
            of Hugging Face's `transformers` (from version 5 on) need no other argument.
        every: in training, log a record every this many forward passes in training mode. Only sums are kept,
            from about ten passes per record. Each layer has `max_violation`, `dead_experts` and `entropy` of
            the load; `adjusted_mutual_information` of experts and labels, if `next(labels=...)` was called
            before each pass and the record has several labels; and `saturation`, the share of the first
            sampled batch's experts that did not change since the record before. For it, that batch runs once
            more without gradients.
        log: the destination of records, with `every`: a folder for TensorBoard, a SummaryWriter, or a
            function that takes a dict, such as `wandb.log`. `TrainingRecorder.history` holds them, too.
        routers: patterns of the names of modules that return logits, or experts and weights: "*.gate".
        top_k: the number of experts per token, if routers return logits.

    Returns:
        A `Recorder`: call `next(labels=...)` within the block, `measure()` and `save(folder)` after it. With
        `every`, a `TrainingRecorder`, which has `next(labels=...)` and `history`.

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
        raise ValueError("log needs every, the number of passes between two entries, for example every=100.")
    return Recorder(model, routers, top_k)
