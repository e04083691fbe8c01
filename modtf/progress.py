"""Progress bars, for terminals and notebooks only: in a file they would be thousands of lines."""

import sys
from typing import Any

from tqdm.auto import tqdm


def progress_bar(*arguments: Any, shown: bool = True, **options: Any) -> Any:
    """Return a tqdm bar with these arguments, which is silent if standard error is a file or a pipe."""
    notebook = "ipykernel" in sys.modules
    bar: Any = tqdm
    return bar(*arguments, disable=not shown or not (notebook or sys.stderr.isatty()), **options)
