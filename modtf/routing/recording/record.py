"""Record which experts a PyTorch model sends its tokens to, around any forward passes: `modtf.record`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from modtf.base.checks import check_integer
from modtf.base.extras import need
from modtf.routing.measuring import Experts
from modtf.routing.measuring.activations import ActivationAccumulator
from modtf.routing.measuring.estimates import ADJUSTED
from modtf.routing.recording.layers import check_model, find_layers
from modtf.routing.recording.recorder import Recorder, as_arrays, layer_names
from modtf.routing.recording.tokens import Note, Rows
from modtf.routing.recording.watch import Stream, Watcher

SAMPLED = 10  # passes per record that are recorded
PERMUTATIONS = 20
Record = dict[str, float]
Log = str | Path | Callable[[Record], Any] | Any


class TrainingRecorder:
    """A recorder that logs the routers of a training loop every few passes; see `record`.

    Attributes:
        history: the records so far, as they are logged.
    """

    def __init__(
        self, model: Any, every: int, log: Log = None, routers: Any = None, top_k: int | None = None
    ):
        self.every = check_integer("every", every, 1)
        self.model, self.layers = model, find_layers(model, routers, top_k)
        self.history: list[Record] = []
        self._write = _writer(log)
        self._watcher = Watcher(model, self.layers, self._finish)
        self._passes = 0
        self._note = Note()
        self._hook: Any = None
        self._watching = ExitStack()
        self._probe: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._probed: dict[tuple[str, int, int], NDArray[Any]] = {}  # the probe's experts, last record
        self._streams: dict[str, _Sums] = {}
        self._probing: list[Stream] | None = None

    def __enter__(self) -> "TrainingRecorder":
        self._hook = self.model.register_forward_pre_hook(self._before, with_kwargs=True)
        return self

    def __exit__(self, *error: Any) -> None:
        self._watching.close()
        self._hook.remove()

    def next(self, labels: Any = None, documents: Any = None) -> None:
        """State the labels and documents of the tokens of the next forward pass; see `Recorder.next`."""
        self._note = Note(labels, documents)

    def _before(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not model.training:
            return
        self._passes += 1
        if -self._passes % self.every % max(self.every // SAMPLED, 1):
            self._note = Note()  # what was said of this pass must not be taken for a later one
        else:
            self._probe = self._probe or (_copied(args), _copied(kwargs))
            self._watching.enter_context(self._watcher.watching())
            self._watcher.enter(model, args, kwargs)  # the watcher's hooks come too late for this call
            handle = model.register_forward_hook(self._after, always_call=True)  # must be the last hook
            self._watching.callback(handle.remove)

    def _after(self, model: Any, args: Any, output: Any) -> None:
        self._watching.close()
        if self._passes % self.every == 0 and output is not None:
            self._record()

    def _finish(self, streams: list[Stream]) -> None:
        if self._probing is not None:
            self._probing += streams
            return
        for stream in streams:
            self._streams.setdefault(stream.name, _Sums(stream.name)).add(self.layers, stream, self._note)

    def _record(self) -> None:
        """Log the sums since the record before, and reset them."""
        record: Record = {"step": self._passes}
        saturation = self._saturation()
        for name, sums in self._streams.items():
            titles = layer_names(self.layers, sums.counts)
            for (run, counts), title in zip(sums.counts.items(), titles, strict=True):
                values = _load(counts, self.layers[run[0]].num_experts or 0) | sums.information(run)
                if (name, *run) in saturation:
                    values["saturation"] = saturation[name, *run]
                record |= {f"routing/{measure}/{title}": value for measure, value in values.items()}
            sums.reset()
        self.history.append(record)
        self._write(record)

    def _saturation(self) -> dict[tuple[str, int, int], float]:
        """Return, for each layer, the share of the probe's experts that did not change since the last record.

        The probe is the first recorded pass. It runs once more without gradients.
        """
        args, kwargs = self._probe or ((), {})
        self._probing = []
        inner = getattr(self.model, "module", self.model)  # avoids communication in DistributedDataParallel
        with evaluating(inner), self._watcher.watching(), need("torch", "hf", "modtf.record").no_grad():
            inner(*args, **kwargs)
        streams, self._probing = self._probing, None
        now = {
            (stream.name, *run): experts
            for stream in streams
            for run, (experts, _) in as_arrays(self.layers, stream.runs, stream.keep.ravel()).items()
        }
        before, self._probed = self._probed, now
        return {key: _shared(before[key], now[key]) for key in now.keys() & before.keys()}


class _Sums:
    """Sums over the tokens of one stream since the last record."""

    def __init__(self, name: str):
        self.rows = Rows(name)
        self.reset()

    def reset(self) -> None:
        """Begin the next record, whose documents may have the same numbers."""
        self.rows.documents.forget()
        self.counts: dict[tuple[int, int], NDArray[np.int64]] = {}  # run of a layer -> choices of each expert
        self.labelled: dict[tuple[int, int], ActivationAccumulator] = {}  # layers may differ in E and k

    def add(self, layers: Any, stream: Stream, note: Note) -> None:
        keep, values = self.rows.add(stream, note)
        chosen = as_arrays(layers, stream.runs, keep.ravel())
        has_labels = "labels" in values and len(values["labels"]) > 0
        for run, (experts, weights) in chosen.items():
            size = int(layers[run[0]].num_experts or experts.max(initial=0) + 1)
            counts = np.bincount(experts[experts >= 0], minlength=size)
            self.counts[run] = self.counts.get(run, 0) + counts
            if has_labels:
                sums = self.labelled.setdefault(run, ActivationAccumulator())
                sums.update(Experts(experts, size, weights), values["labels"], values["documents"])

    def information(self, run: tuple[int, int]) -> dict[str, float]:
        """Return the adjusted mutual information of a layer's experts and labels.

        {} without labels, with only one label, and if all tokens have the same experts.
        """
        sums = self.labelled.get(run)
        if sums is None or sums.tables[0].watch.alike:
            return {}
        (layer,) = sums.result(permutations=PERMUTATIONS)
        values = layer.hard.values
        return {ADJUSTED: values[ADJUSTED].value} if ADJUSTED in values else {}


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Put a model into evaluation mode, and each of its modules back into the mode it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def _load(counts: NDArray[np.int64], num_experts: int) -> Record:
    """Return measures of how evenly experts are used.

    `max_violation` is the largest load divided by the mean load, minus 1 (Wang et al., 2024,
    "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts"). `entropy` is 1 if all experts are
    used equally.
    """
    share = counts / max(counts.sum(), 1)
    used = share[share > 0]
    entropy = float(-(used * np.log(used)).sum() / np.log(max(num_experts, 2)))
    violation = float(share.max(initial=0.0) * num_experts - 1)
    return {"max_violation": violation, "dead_experts": float((counts == 0).sum()), "entropy": entropy}


def _shared(before: NDArray[Any], now: NDArray[Any]) -> float:
    """Return the share of earlier choices that the same token makes again now."""
    same = (before[..., np.newaxis] == now[:, np.newaxis, :]).any(-1) & (before >= 0)
    return float(same.sum() / max((before >= 0).sum(), 1))


def _writer(log: Log) -> Callable[[Record], Any]:
    """Return a function that logs a record: `log` itself, or one that writes to TensorBoard."""
    if log is None:
        return lambda record: None
    if isinstance(log, str | Path):
        log = need("torch.utils.tensorboard", "hf", "log=FOLDER").SummaryWriter(str(log))
    if hasattr(log, "add_scalar"):
        return partial(_write_scalars, log)
    if not callable(log):
        raise ValueError(
            f"log={log!r} is not valid; expected a folder for TensorBoard, a SummaryWriter or a function of "
            "a dict."
        )
    return log


def _write_scalars(writer: Any, record: Record) -> None:
    for name, value in record.items():
        if name != "step":
            writer.add_scalar(name, value, int(record["step"]))
    writer.flush()


def _copied(values: Any) -> Any:
    """Return arguments whose tensors are copies."""
    if isinstance(values, dict):
        return {name: _copied(value) for name, value in values.items()}
    if isinstance(values, list | tuple):
        return type(values)(_copied(value) for value in values)
    return values.detach().clone() if hasattr(values, "detach") else values


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
