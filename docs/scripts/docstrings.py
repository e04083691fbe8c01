"""For the API page: what our docstrings call "Example" is the section that griffe calls "Examples"."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section while docstrings are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^( *)Example:$", r"\1Examples:", obj.docstring.value)
