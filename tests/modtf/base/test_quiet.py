import os

import pytest
import tensorflow as tf

from modtf.base.quiet import quiet_tensorflow


@pytest.mark.parametrize(("given", "left"), [(None, "1"), ("0", "0")])
def test_convolutions_are_those_of_onednn_unless_a_user_says_otherwise(given, left, monkeypatch):
    assert tf  # already imported: nothing else is done
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    if given:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", given)
    quiet_tensorflow()
    assert os.environ["TF_ENABLE_ONEDNN_OPTS"] == left
