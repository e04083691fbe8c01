"""TensorFloat-32 is off unless it is asked for."""

import pytest
import tensorflow as tf

from modtf.evaluation.precision import use_precision
from modtf.models.build import build
from modtf.population import Population
from modtf.protocol import Protocol
from modtf.task import Task
from modtf.training.compile import compile_model


@pytest.fixture(autouse=True)
def as_it_was():
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


@pytest.mark.parametrize(("precision", "enabled"), [("float32", False), ("tf32", True)])
def test_compiling_chooses(precision, enabled):
    tf.config.experimental.enable_tensor_float_32_execution(not enabled)
    task = Task()
    protocol = Protocol.published(task).replace(precision=precision)
    compile_model(build(task, "monolithic", 4), Population.of(task), protocol.training)
    assert tf.config.experimental.tensor_float_32_execution_enabled() is enabled


def test_unknown():
    with pytest.raises(ValueError, match="precision='half' is not known; expected one of float32, tf32"):
        use_precision("half")
    with pytest.raises(ValueError, match="precision"):
        Protocol.published(Task()).replace(precision="half")
