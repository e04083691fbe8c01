"""Checks of single values. Errors name the received and the expected value."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

NAME = re.compile(r"[a-z][a-z0-9_]*")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Raise `ValueError` with the received value and the expected choices. True and 1 differ: results name
    an option by its text."""
    known = list(choices)
    if value not in known or not any(isinstance(value, bool) == isinstance(one, bool) for one in known):
        expected = f"expected one of {', '.join(map(str, known))}.{did_you_mean(value, known)}"
        raise ValueError(f"{name}={value!r} is not known; {expected}")


def did_you_mean(value: Any, known: Iterable[Any]) -> str:
    """Return " Did you mean NAME?" if a known name is close to `value`, else an empty text."""
    names = [name for name in known if isinstance(name, str)]
    near = get_close_matches(value, names, n=1) if isinstance(value, str) else []
    return f" Did you mean {near[0]!r}?" if near else ""


def is_number(value: Any) -> bool:
    """Return whether a value is a real number; a truth value is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as a plain `int`. Raise `ValueError` unless it is an integer from `low` to `high`, if
    given."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < low:
        limit = f"at least {low}"
    elif high is not None and int(value) > high:
        limit = f"at most {high}"
    else:
        return int(value)
    raise ValueError(f"{name}={value!r} is not valid; expected an integer of {limit}.")


def check_number(name: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a plain `float`. Raise `ValueError` unless low <= value <= high (NaN is not)."""
    if not is_number(value) or not low <= float(value) <= high:
        raise ValueError(f"{name}={value!r} is not valid; expected a number between {low:g} and {high:g}.")
    return float(value)


def check_level(level: Any) -> float:
    """Return a level of confidence as a `float`. Raise `ValueError` unless 0 < level < 1."""
    if not is_number(level) or not 0 < float(level) < 1:
        raise ValueError(f"level={level!r} is not valid; expected a number between 0 and 1, such as 0.95.")
    return float(level)


def check_type(name: str, value: Any, expected: type) -> None:
    """Raise `ValueError` unless `value` is an instance of the expected class."""
    if not isinstance(value, expected):
        raise ValueError(f"{name}={value!r} is not valid; expected a modtf.{expected.__name__}.")


def check_callable(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value` can be called."""
    if not callable(value):
        raise ValueError(f"{name}={value!r} is not valid; expected a function.")


def check_path(name: str, value: Any) -> None:
    """Raise `ValueError` unless `value` is a path; it need not exist."""
    try:
        if not isinstance(value, str | os.PathLike):
            raise TypeError("it is not a path")
        os.lstat(value)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # it may be created later
    except (OSError, TypeError, ValueError) as error:  # too long, or contains a null character
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{name}={value!r} is not valid; expected a path ({reason}).") from error


def check_name(kind: str, value: Any) -> None:
    """Raise `ValueError` unless `value` can be used on a command line and in a file name."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise ValueError(
            f"{value!r} is not a valid name of {kind}; expected lower-case letters, digits and underscores, "
            "beginning with a letter."
        )


def check_attributes(what: str, owner: Any, **kinds: type) -> None:
    """Raise `ValueError` unless attributes of `owner`, described by `what`, are texts (str) or truth values
    (bool)."""
    for name, kind in kinds.items():
        if not isinstance(value := getattr(owner, name), kind):
            expected = "a text" if kind is str else "True or False"
            raise ValueError(f"{what} has {name}={value!r}; expected {expected}.")


def check_names(name: str, value: Any) -> tuple[str, ...]:
    """Return `value` as a tuple of texts. Raise `ValueError` if it is anything but a sequence of texts."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    if not listed or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{name}={value!r} is not valid; expected a list of names.")
    return tuple(value)


def differences(stored: Any, expected: Any, name: str = "") -> list[str]:
    """Return the differences of two JSON-able descriptions.

    The format is "cell.width is 32 there and 64 here", for every value that differs.
    """
    if isinstance(stored, Mapping) and isinstance(expected, Mapping):
        pairs = [
            (f"{name}.{key}".lstrip("."), stored.get(key), expected.get(key))
            for key in {**stored, **expected}
        ]
    elif isinstance(stored, list) and isinstance(expected, list) and len(stored) == len(expected):
        pairs = [(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(stored, expected, strict=True))]
    else:
        return [] if stored == expected else [f"{name} is {stored!r} there and {expected!r} here"]
    return [text for name, one, other in pairs for text in differences(one, other, name)]


def check_options(name: str, value: Any) -> dict[str, Any]:
    """Return `value` as a dict that JSON can write. JSON has one type for lists and tuples: lists become
    tuples. Raise `ValueError` unless it maps names to such values."""
    try:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise TypeError("it is not a dict with names as keys")
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{name}={value!r} is not valid; expected a dict of numbers or texts by name ({error})."
        ) from error
    return {key: _as_tuples(one) for key, one in value.items()}


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value
