"""Watch the forward passes of a PyTorch model: their tokens, and where its routers send them."""

import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from modtf.routing.recording.layers import RoutedLayer

IDS, MASK = "input_ids", "attention_mask"
DECODER_IDS, DECODER_MASK = f"decoder_{IDS}", f"decoder_{MASK}"
Runs = dict[tuple[int, int], tuple[Any, Any]]  # layer, run within a pass -> experts [T, k], weights [T, k]


@dataclass(frozen=True)
class Span:
    """The tokens that a pass adds to a cache: from `start` to `stop`, counted with padding."""

    start: int  # the number of tokens in the cache before the pass
    stop: int  # the number after it
    cache: Any = None  # a weak reference to the cache that the pass was called with
    result: Any = None  # a weak reference to the cache that it returned

    def follows(self, before: "Span") -> bool:
        """Return whether the cache holds the rows of the pass before.

        Assisted generation removes tokens of the pass before, but not all of them.
        """
        if self.cache is None or before.result is None:
            return 0 < self.start == before.stop
        return self.cache() is before.result() is not None and before.start < self.start <= before.stop


@dataclass
class Inputs:
    """The tokens and the mask that a module was called with, and the cache."""

    ids: Any  # [B, N]
    mask: Any  # of any shape, or None
    past: int | None = None  # the number of tokens in the cache before the call, if a cache knows it
    cache: Any = None  # a weak reference to the cache

    def span(self, output: Any) -> Span:
        """Return the place of the tokens in the cache. The pass's `output` may hold the cache."""
        start, length = self.past, self.ids.shape[1]
        if start is None:
            is_wider = getattr(self.mask, "ndim", 0) == 2 and self.mask.shape[1] > length
            start = self.mask.shape[1] - length if is_wider else 0
        values = [*output.values()] if isinstance(output, Mapping) else output
        values = values if isinstance(values, list | tuple) else ()
        caches = [value for value in values if hasattr(value, "get_seq_length")]
        return Span(start, start + length, self.cache, _reference(caches[0]) if caches else self.cache)

    def kept_by(self, mask: Any) -> Any:
        """Return which tokens a mask keeps, `[B, N]`, or None if its shape does not allow to tell."""
        import torch

        (rows, length), past = self.ids.shape, self.past or 0
        if isinstance(mask, dict):  # one mask per kind of attention
            mask = next(iter(mask.values()), None)
        shape = tuple(getattr(mask, "shape", ()))
        if len(shape) == 2 and shape[0] == rows and shape[1] >= length:
            return mask[:, -length:] != 0
        if len(shape) == 4 and shape[0] == rows and shape[2] == length and shape[3] >= past + length:
            places = torch.arange(length, device=mask.device)
            own = mask[:, 0, places, past + places]  # padding does not attend to itself
            return own if own.dtype == torch.bool else own == 0
        return None


def given_tokens(signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Inputs | None, Inputs | None]:
    """Return the tokens among the arguments of a module, and the tokens for its decoder."""
    import torch

    named = dict(signature.bind_partial(*args, **kwargs).arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind == parameter.VAR_KEYWORD:
            named |= named.pop(name, {})
    ids, decoder = named.get(IDS), named.get(DECODER_IDS)
    if not {IDS, DECODER_IDS} & set(signature.parameters) and ids is None:
        tensors = [one for one in (*args, *named.values()) if torch.is_tensor(one) and one.ndim == 2]
        ids = next((one for one in tensors if not one.is_floating_point()), None)
    cache = named.get("cache", named.get("past_key_values"))
    past = _length(cache), _reference(cache)
    own = None if ids is None else Inputs(ids, named.get(MASK), *(past if decoder is None else ()))
    return own, None if decoder is None else Inputs(decoder, named.get(DECODER_MASK), *past)


def argument_names(signatures: Iterable[inspect.Signature]) -> set[str]:
    """Return the names of the arguments that a module takes, also those that it hands on as `**kwargs`.

    Args:
        signatures: of the module and of the modules inside that take tokens, the outermost first. If one has
            `**kwargs`, the next one's names and those in the annotation count, `Unpack[TypedDict]`.
    """
    names: set[str] = set()
    for signature in signatures:
        parameters = signature.parameters.values()
        names |= {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        rest = next((one for one in parameters if one.kind == one.VAR_KEYWORD), None)
        if rest is None:
            break
        for typed in get_args(rest.annotation):
            names |= set(getattr(typed, "__annotations__", ()))
    return names


def _length(cache: Any) -> int | None:
    """Return the number of tokens in a cache before the pass adds its own, or None if it is not known."""
    try:
        return None if cache is None else int(cache.get_seq_length())
    except (AttributeError, ValueError):  # a cache for linear attention only has no length; see the mask
        return None


def _reference(cache: Any) -> Any:
    """Return a weak reference, so that a finished cache can be freed; None if there is no cache."""
    try:
        return None if cache is None else weakref.ref(cache)
    except TypeError:  # a tuple, for example
        return None


class Stops:
    """The rows that `generate()` has ended by its stopping criteria: tokens, texts, length or functions."""

    def __init__(self) -> None:
        self.generation = 0  # the number of calls of `generate()` that have ended
        self._depth = 0  # an assistant generates within a call of `generate()`
        self._last: tuple[Any, Any] | None = None  # the newest token of each row, whether it ends the row

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Observe all calls of `generate()` while the block runs. Without `transformers` there are none."""
        utils = sys.modules.get("transformers.generation.utils")
        if utils is None:
            yield
            return
        with (
            _replaced(utils.StoppingCriteriaList, "__call__", self._criteria),
            _replaced(utils.GenerationMixin, "generate", self._generate),
        ):
            yield

    def of(self, ids: Any) -> NDArray[np.bool_] | None:
        """Return which rows end with the tokens `ids` `[B, 1]`; None if `generate()` did not choose them."""
        if self._last is None or tuple(ids.shape) != (len(self._last[0]), 1):
            return None
        newest, ended = (one.cpu().numpy() for one in self._last)
        return np.asarray(ended, bool) if (ids[:, 0].cpu().numpy() == newest).all() else None

    def _criteria(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def criteria(own: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            ended = call(own, input_ids, *args, **kwargs)
            self._last = input_ids[:, -1], ended.reshape(-1)
            return ended

        return criteria

    def _generate(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def generate(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.generation, self._last = self.generation + 1, None

        return generate


@contextmanager
def _replaced(owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> Iterator[None]:
    method = getattr(owner, name)
    setattr(owner, name, make(method))
    try:
        yield
    finally:
        setattr(owner, name, method)


@dataclass
class Stream:
    """The tokens of one forward pass: all of them, or those of the encoder or of the decoder."""

    name: str  # "encoder", "decoder", or "" if the model has one stream
    ids: Any  # [B, N]
    keep: NDArray[np.bool_]  # [B, N], False if the attention mask leaves the token out
    span: Span  # the place of the tokens in the cache
    generation: int = 0  # the number of calls of `generate()` that ended before the pass
    stopped: NDArray[np.bool_] | None = None  # [B], the rows that end with this token, as `generate()` says
    runs: Runs = field(default_factory=dict)  # the choices of every run of every layer that ran


class Watcher:
    """Hooks on a model that hand every finished forward pass to a function.

    Args:
        model: a `torch.nn.Module`, wrapped or not.
        layers: the model's routed layers.
        finish: a function that gets the streams of each pass. A pass is one call of the outermost module that
            takes tokens. Calls outside of a pass, such as recomputation for gradients, are ignored.
    """

    def __init__(self, model: Any, layers: list[RoutedLayer], finish: Callable[[list[Stream]], None]):
        self.layers, self.finish, self.paused = layers, finish, False
        above = {path for layer in layers for path in _above(layer.path)}
        modules = {path: module for path, module in model.named_modules() if path in above}
        known = {path: inspect.signature(module.forward) for path, module in modules.items()}
        takes = [path for path in known if {IDS, DECODER_IDS} & set(known[path].parameters)]
        self.signatures = {path: known[path] for path in takes or [""]}
        self.modules = {path: modules[path] for path in self.signatures}
        self._has_decoder = any(DECODER_IDS in one.parameters for one in self.signatures.values())
        self._root: str | None = None  # path of the module whose call is the current pass
        self._given: dict[str, tuple[Inputs | None, Inputs | None]] = {}  # path -> tokens, decoder's tokens
        self._runs: dict[int, list[tuple[Any, Any]]] = {}  # layer -> its runs
        self._stops = Stops()
        self._images: dict[int, Any] = {}  # id of a block -> which tokens are images

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Keep the hooks while the block runs. Compiled models run uncompiled meanwhile."""
        import torch

        with ExitStack() as stack:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
            stack.enter_context(self._stops.watching())
            for path, module in self.modules.items():
                before, after = partial(self._enter, path), partial(self._leave, path)
                stack.callback(module.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(module.register_forward_hook(after, always_call=True).remove)
            for number, layer in enumerate(self.layers):
                if layer.kind == "experts":
                    hook = partial(self._handed, number)
                    stack.callback(layer.module.register_forward_pre_hook(hook, with_kwargs=True).remove)
                else:
                    stack.callback(layer.module.register_forward_hook(partial(self._put_out, number)).remove)
            blocks = {id(layer.parts[0]): layer.parts[0] for layer in self.layers if layer.parts}
            for block in blocks.values():
                stack.callback(block.register_forward_pre_hook(self._split, with_kwargs=True).remove)
            yield

    def enter(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the tokens of a call of the model that began before the hooks were added."""
        for path, module in self.modules.items():
            if module is model:
                self._enter(path, module, args, kwargs)

    def _enter(self, path: str, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._root in (None, path):
            self._root, self._given, self._runs, self._images = path, {}, {}, {}
        self._given[path] = given_tokens(self.signatures[path], args, kwargs)

    def _leave(self, path: str, _: Any, args: Any, output: Any) -> None:
        if path != self._root:
            return
        self._root = None
        if output is not None and not self.paused:  # None: the pass ended with an error
            self.finish(self._streams(output))

    def _handed(self, number: int, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self.layers[number]
        if self._root is not None and not self.paused:
            self._note(number, *layer.read_inputs(args, kwargs))
        return None if layer.off is None else layer.without_off(args, kwargs)

    def _put_out(self, number: int, _: Any, args: tuple[Any, ...], output: Any) -> None:
        layer = self.layers[number]
        if layer.off is not None:
            raise ValueError(
                f"ablate: {layer.name} is a router. Leave out ablate, or routers={layer.name!r}."
            )
        if self._root is not None and not self.paused:
            self._note(number, *layer.read_output(output, args))

    def _note(self, number: int, experts: Any, weights: Any) -> None:
        parts = self.layers[number].parts
        images = None if parts is None else self._images.get(id(parts[0]))
        if parts is not None and images is not None:
            of_part = images.reshape(-1).bool() == parts[1]
            experts, weights = _spread(experts, of_part, -1), _spread(weights, of_part, 0)
        self._runs.setdefault(number, []).append((experts.detach(), weights.detach()))

    def _split(self, block: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = inspect.signature(block.forward).bind_partial(*args, **kwargs).arguments
        types = (value for name, value in bound.items() if name.endswith("token_type_ids"))
        self._images[id(block)] = next(types, None)

    def _streams(self, output: Any) -> list[Stream]:
        """Return the streams of a pass. Each layer gets the tokens of the nearest enclosing module."""
        streams: dict[str, Stream] = {}
        for number, layer in enumerate(self.layers):
            tokens = self._of(layer)
            if tokens is None:
                if number in self._runs:
                    raise ValueError(
                        f"{layer.name} ran without {IDS} [B, N]. Call the model with tokens instead of "
                        "embeddings."
                    )
                continue
            key = layer.side if self._has_decoder else ""
            if key not in streams:
                tokens = self._with_cache(tokens)
                streams[key] = Stream(
                    key, tokens.ids, self._keep(tokens), tokens.span(output),
                    self._stops.generation, self._stops.of(tokens.ids),
                )  # fmt: skip
            stream = streams[key]
            for run, (experts, weights) in enumerate(self._runs.get(number, [])):
                if len(experts) != stream.keep.size:
                    raise ValueError(
                        f"{layer.name} routed {len(experts)} tokens in a pass with {stream.keep.size}, so "
                        f"it does not route each token once. {layer.advice('Leave it out by ')}"
                    )
                stream.runs[number, run] = experts, weights
        return [stream for stream in streams.values() if stream.runs]

    def _of(self, layer: RoutedLayer) -> Inputs | None:
        for path in _above(layer.path):
            own, decoder = self._given.get(path, (None, None))
            takes_both = path in self.signatures and DECODER_IDS in self.signatures[path].parameters
            stream = decoder if takes_both and layer.side == "decoder" else own
            if stream is not None:
                return stream
        return None

    def _keep(self, tokens: Inputs) -> NDArray[np.bool_]:
        """Return which tokens count, `[B, N]`, by the mask of this module or of one that encloses it."""
        masks = [one.mask for one in self._all(tokens) if one.mask is not None]
        masks.sort(key=lambda mask: getattr(mask, "ndim", 9))  # [B, N] masks come first
        for mask in masks:
            kept = tokens.kept_by(mask)
            if kept is not None:
                return np.asarray(kept.detach().cpu().numpy())
        if masks:
            raise ValueError(f"{MASK} is not [B, N], so padding cannot be left out. Pass it as [B, N].")
        return np.ones(tuple(tokens.ids.shape), bool)

    def _with_cache(self, tokens: Inputs) -> Inputs:
        """Return the tokens with the cache that this module, or the outermost one that has it, was given."""
        known = next((one for one in self._all(tokens) if one.past is not None), tokens)
        return replace(tokens, past=known.past, cache=known.cache)

    def _all(self, tokens: Inputs) -> Iterator[Inputs]:
        """Yield what any module was given with these tokens, the outermost module first."""
        for both in self._given.values():
            yield from (one for one in both if one is not None and self._same(one.ids, tokens.ids))

    def _same(self, one: Any, other: Any) -> bool:
        if one is other or one.shape != other.shape:
            return one is other
        return one.data_ptr() == other.data_ptr() or (not self._has_decoder and bool((one == other).all()))


def _above(path: str) -> list[str]:
    """Return the paths of a module and its enclosing modules. The last is the whole model, ""."""
    parts = path.split(".") if path else []
    return [".".join(parts[:depth]) for depth in range(len(parts), -1, -1)]


def _spread(values: Any, part: Any, rest: int) -> Any:
    """Return `[T, k]` with `values` for the tokens in `part`, and `rest` for the others."""
    whole = values.new_full((len(part), values.shape[-1]), rest)
    whole[part] = values
    return whole
