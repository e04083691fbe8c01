"""The options of routers and architectures: keyword arguments of one of their methods."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any


def options_of(owner: type, method: str, skip: int = 1) -> dict[str, Any]:
    """Return the options that `owner.method` takes after its first `skip` arguments, with their defaults.

    If the method passes other options on (`**options`), those of its base class are included.
    """
    options: dict[str, Any] = {}
    for written_by in owner.__mro__:
        if method not in vars(written_by):
            continue
        function = vars(written_by)[method]
        options = options_of_function(function, skip) | options
        if not inspect.getfullargspec(function).varkw:
            break
    return options


def options_of_function(function: Callable[..., Any], skip: int) -> dict[str, Any]:
    """Return the options that a function takes after its first `skip` arguments, with their defaults."""
    parameters = list(inspect.signature(function).parameters.values())[skip:]
    return {p.name: p.default for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def check_known_options(what: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise `ValueError`, naming all options, if one is unknown to `what` or missing."""
    listed = f"its options: {', '.join(known) or 'none'}"
    for name, value in options.items():
        if name not in known:
            raise ValueError(f"{name}={value!r} is not an option of {what}; {listed}.")
    for name, default in known.items():
        if default is inspect.Parameter.empty and name not in options:
            raise ValueError(f"The option {name!r} of {what} has no default. Give it; {listed}.")
