"""Adapt docstrings to griffe for the API page: our section "Example" is its "Examples"."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """An extension that renames the section while docstrings are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)
