"""Observe which rows `generate()` of Hugging Face's `transformers` has ended."""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Stops:
    """The rows that the stopping criteria of `generate()` have ended: by tokens, texts, length or functions.

    Attributes:
        generation: the number of calls of `generate()` that have ended.
    """

    def __init__(self) -> None:
        self.generation = 0
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
    """Replace a method by another that is made from it, while the block runs."""
    method = getattr(owner, name)
    setattr(owner, name, make(method))
    try:
        yield
    finally:
        setattr(owner, name, method)
