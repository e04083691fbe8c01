"""Whether XLA keeps its programs beyond the process."""

import os

VARIABLE = "TF_XLA_FLAGS"  # of the environment
FLAG = "--tf_xla_persistent_cache_directory"


def is_used() -> bool:
    """Whether a folder is set."""
    return FLAG in os.environ.get(VARIABLE, "")
