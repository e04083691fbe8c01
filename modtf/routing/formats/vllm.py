"""Responses of vLLM with `routed_experts` (`--enable-return-routed-experts`).

Each choice holds `[tokens, layers, k]`: as an array in `RequestOutput`, over HTTP as base64 of an .npy file.
It covers the prompt and the completion without its last token, which is not routed. Some versions return the
prompt's part as `prompt_routed_experts`. Source: `vllm/outputs.py`, `tests/entrypoints/openai/
test_return_routed_experts.py` of github.com/vllm-project/vllm.
"""

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from modtf.routing.formats.joined import NONE, Document, as_array, as_experts, get, joined, warn
from modtf.routing.formats.registry import FORMATS, Format, Readers
from modtf.routing.formats.source import Source

ROUTED, PROMPT = "routed_experts", "prompt_routed_experts"


@FORMATS.register("vllm")
class Vllm(Format):
    """Responses in JSON, in JSON lines, or as objects. Each choice is a document."""

    @classmethod
    def detect(cls, source: Source) -> bool:
        choices = _choices(source.first)
        return bool(choices) and get(choices[0], ROUTED) is not None

    @classmethod
    def read(cls, source: Source) -> Readers:
        return joined([one for place, response in source.contents() for one in _documents(place, response)])


def _choices(response: Any) -> list[Any]:
    choices = get(response, "choices") or get(response, "outputs")
    return list(choices) if isinstance(choices, list | tuple) else []


def _documents(place: str, response: Any) -> Iterator[Document]:
    choices = _choices(response)
    if not choices:
        raise ValueError(f"{place} has no choices with {ROUTED}")
    prompts: list[list[int]] = []
    for number, choice in enumerate(choices):
        where = f"choice {number} of {place}"
        prompt, completion = _token_ids(where, response, choice)
        routed = decoded(get(choice, ROUTED), where)
        if (ahead := get(response, PROMPT)) is not None:
            before = decoded(ahead, where)
            if len(before) != len(prompt):
                raise ValueError(
                    f"{where} has routing for {len(before)} tokens of a prompt of {len(prompt)}; expected "
                    "as many"
                )
            routed = np.concatenate([before, routed])
        num_tokens = len(prompt) + len(completion)
        if len(routed) not in (num_tokens, num_tokens - 1):
            raise ValueError(
                f"{where} has routed_experts of shape {routed.shape} for {len(prompt)} tokens of the prompt "
                f"and {len(completion)} of the completion; expected [{num_tokens - 1}, layers, k]: all but "
                "the last"
            )
        tokens = as_array([*prompt, *completion])[: len(routed)]
        repeats = prompt in prompts
        if repeats and number == len(prompts):  # no choice before repeats one
            warn(f"{place} has choices with the same prompt, whose tokens count once.")
        if not repeats:  # a request for completions may have several prompts
            prompts.append(prompt)
        start = len(prompt) if repeats else 0
        known = bool((tokens >= 0).all())
        yield Document(where, routed[start:], tokens=tokens[start:] if known else None)


def _token_ids(place: str, response: Any, choice: Any) -> tuple[list[int], list[int]]:
    """Return the tokens of prompt and completion; all -1 if only their number is known."""
    prompt = get(response, "prompt_token_ids", get(choice, "prompt_token_ids"))
    completion, usage = get(choice, "token_ids"), get(response, "usage")
    several = len(_choices(response)) > 1
    if prompt is None and usage is not None:
        prompt = [NONE] * get(usage, "prompt_tokens", 0)
    if completion is None and usage is not None and not several:
        completion = [NONE] * get(usage, "completion_tokens", 0)
    if prompt is None or completion is None:
        raise ValueError(
            f"{place} has no token ids. Request them by return_token_ids=True, so that the rows of "
            "routed_experts can be aligned"
        )
    return list(prompt), list(completion)


def decoded(value: Any, place: str) -> NDArray[Any]:
    """Return experts `[tokens, layers, k]` from an array, nested lists, or base64 of an .npy file."""
    if isinstance(value, str):
        with io.BytesIO(base64.b64decode(value, validate=True)) as file:
            value = np.load(file, allow_pickle=False)
    elif isinstance(value, dict):
        if value.get("encoding", "base64") != "base64" or not {"data", "shape", "dtype"} <= set(value):
            raise ValueError(f"{place} has routed_experts with {', '.join(value)}; expected base64")
        data = base64.b64decode(value["data"], validate=True)
        value = np.frombuffer(data, value["dtype"]).reshape(value["shape"])
    return as_experts(as_array(value), place)
