import subprocess
import sys

import numpy as np

from modtf.metrics import measure_all

SCRIPT = """
import sys
import modtf.metrics
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"tensorflow", "keras"}, loaded
assert "scipy" not in loaded
modtf.metrics.measure_all([[1, 0], [0, 1]])
assert not {name.partition(".")[0] for name in sys.modules} & {"tensorflow", "keras"}
"""


def test_loads_no_tensorflow():
    result = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_accepts_what_numpy_can_read():
    """Anything with `__array__`, as tensors have, is an activation matrix."""

    class Tensor:
        def __array__(self, dtype=None, copy=None):
            return np.eye(2, dtype=dtype or np.float32)

    assert measure_all(Tensor())["alignment"] == 0
