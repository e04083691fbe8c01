"""Find the tokens and the attention mask among the arguments of a PyTorch module."""

import inspect
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

IDS, MASK = "input_ids", "attention_mask"
DECODER_IDS, DECODER_MASK = f"decoder_{IDS}", f"decoder_{MASK}"


@dataclass(frozen=True)
class Span:
    """The tokens that a pass adds to a cache: from `start` to `stop`, counted with padding.

    Attributes:
        start: the number of tokens in the cache before the pass.
        stop: the number after it.
        cache: a weak reference to the cache that the pass was called with, or None.
        result: a weak reference to the cache that it returned, or None.
    """

    start: int
    stop: int
    cache: Any = None
    result: Any = None

    def follows(self, before: "Span") -> bool:
        """Return whether the cache holds the rows of the pass before.

        Assisted generation removes tokens of the pass before, but not all of them.
        """
        if self.cache is None or before.result is None:
            return 0 < self.start == before.stop
        return self.cache() is before.result() is not None and before.start < self.start <= before.stop


@dataclass
class Tokens:
    """The tokens and the mask that a module was called with, and the cache.

    Attributes:
        ids: `[B, N]`.
        mask: of any shape, or None.
        past: the number of tokens in the cache before the call, or None if there is no cache that knows it.
        cache: a weak reference to the cache, or None.
    """

    ids: Any
    mask: Any
    past: int | None = None
    cache: Any = None

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


def given_tokens(signature: inspect.Signature, args: Any, kwargs: Any) -> tuple[Tokens | None, Tokens | None]:
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
    own = None if ids is None else Tokens(ids, named.get(MASK), *(past if decoder is None else ()))
    return own, None if decoder is None else Tokens(decoder, named.get(DECODER_MASK), *past)


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
