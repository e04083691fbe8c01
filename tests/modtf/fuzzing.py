"""Invalid values for tests. The outcome must be a clear error from modtf, or a result."""

import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import modtf

ROOT = Path(modtf.__file__).resolve().parents[1]
FOLDERS = [str(ROOT / name) + os.sep for name in ("modtf", "models", "datasets", "metrics", "launch")]
EXAMPLES = int(os.environ.get("MODTF_FUZZ", "2"))  # per test; by hand 1000

#: the same examples every time unless many are asked for
few = settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES < 100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Stranger:
    """An object of an unknown type."""

    def __repr__(self) -> str:
        return "Stranger()"


NUMBERS = [0, -1, 1, 2, 7, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.0, -0.5, 0.5, 1e-300, 1e300]
NUMBERS += [float("nan"), float("inf"), -float("inf")]
WORDS = ["", " ", "\n", "nan", "None", "mlp", "v1", "modular", "iid", "ünï çødé 🦊", "\u202e", "a" * 1000]
WORDS += ["../..", "/dev/null", "/proc/nowhere/x", "~", "%s", "{}", "__import__('os').abort()", "\x00"]
THINGS = [None, True, False, Stranger(), b"bytes", 1j, np.float32(2), np.int8(3), np.array(["x"], object)]

one_thing = st.sampled_from([*NUMBERS, *WORDS, *THINGS]) | st.integers() | st.floats() | st.text(max_size=5)
anything = one_thing | st.recursive(
    one_thing,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)


#: what every argument is given; half of it unless many examples are asked for
WRONG: list[Any] = [None, float("nan"), Stranger(), -1, "no", True, 0.5, 10**30, [], {}]
WRONG = WRONG if EXAMPLES > 2 else WRONG[:5]


class BeginsError(Exception):
    """Raised when the work begins: all arguments were valid."""


def begin(*_: Any, **__: Any) -> None:
    """Replace the work in a test."""
    raise BeginsError


def survives(call: Callable[[], Any], *names: str) -> Any:
    """Return the result, or None after an error from modtf, of one line, that names one of `names`.

    Any other error, and one from the depths of a library, is a failure of the test.
    """
    caught: Exception | None = None
    try:
        return call()
    except (ValueError, TypeError, OSError) as error:
        caught = error
    where = traceback.extract_tb(caught.__traceback__)[-1].filename
    is_own = os.path.realpath(where).startswith(tuple(FOLDERS))
    text = str(caught)
    assert is_own or "unexpected keyword" in text, f"from {where}: {type(caught).__name__}: {text}"
    assert text.strip()
    assert "\n" not in text, f"{text!r} is more than a line"
    assert not names or any(name in text for name in names), f"{text!r} names none of {names}"
    return None
