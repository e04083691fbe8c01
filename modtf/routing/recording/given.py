"""Find the tokens and the attention mask among the arguments of a PyTorch module."""

import inspect
from dataclasses import dataclass
from typing import Any

IDS, MASK = "input_ids", "attention_mask"
DECODER_IDS, DECODER_MASK = f"decoder_{IDS}", f"decoder_{MASK}"


@dataclass
class Tokens:
    """The tokens and the mask that a module was called with, and the number of tokens in its cache."""

    ids: Any
    mask: Any
    past: int

    @property
    def go_on(self) -> bool:
        """Whether they continue the rows of an earlier call, with a cache."""
        is_wider = getattr(self.mask, "ndim", 0) == 2 and self.mask.shape[1] > self.ids.shape[1]
        return is_wider or self.past > 0

    def kept_by(self, mask: Any) -> Any:
        """Return which tokens a mask keeps, `[B, N]`, or None if its shape does not allow to tell."""
        import torch

        rows, length = self.ids.shape
        if isinstance(mask, dict):  # one mask per kind of attention
            mask = next(iter(mask.values()), None)
        shape = tuple(getattr(mask, "shape", ()))
        if len(shape) == 2 and shape[0] == rows and shape[1] >= length:
            return mask[:, -length:] != 0
        if len(shape) == 4 and shape[0] == rows and shape[2] == length and shape[3] >= self.past + length:
            places = torch.arange(length, device=mask.device)
            own = mask[:, 0, places, self.past + places]  # padding does not attend to itself
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
    past = _length(named.get("cache", named.get("past_key_values")))
    own = None if ids is None else Tokens(ids, named.get(MASK), past)
    return own, None if decoder is None else Tokens(decoder, named.get(DECODER_MASK), past)


def _length(cache: Any) -> int:
    """Return the number of tokens in a cache, before the pass adds its own."""
    try:
        return 0 if cache is None else int(cache.get_seq_length())
    except (AttributeError, ValueError):  # a cache for linear attention only has no length; see the mask
        return 0
