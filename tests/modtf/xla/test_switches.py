"""The internal names of TensorFlow that modtf needs exist, and stay as they were."""

import logging
from dataclasses import replace

import pytest
import tensorflow as tf

import modtf
from modtf import Evaluation, Population, Protocol, Task, build
from modtf.training.compile import compile_model
from modtf.xla.switches import OPTION, no_retracing_advice, xla_alone


@pytest.fixture
def precision_as_it_was():
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    yield
    tf.config.experimental.enable_tensor_float_32_execution(before)


@pytest.mark.parametrize(("precision", "enabled"), [("float32", False), ("tf32", True)])
def test_compiling_chooses_the_precision(precision_as_it_was, precision, enabled):
    tf.config.experimental.enable_tensor_float_32_execution(not enabled)
    task = Task()
    protocol = Protocol.published(task).replace(precision=precision)
    compile_model(build(task, "monolithic", 4), Population.of(task), protocol.training)
    assert tf.config.experimental.tensor_float_32_execution_enabled() is enabled


@pytest.mark.parametrize("trained", [False, True])
def test_an_evaluation_is_in_float32_or_as_the_training_was(precision_as_it_was, trained):
    """By default TensorFlow rounds products on a GPU to TensorFloat-32. Another training may have changed
    it since."""
    task = Task()
    model, training = build(task, "monolithic", 4), Protocol.published(task).training
    if trained:
        compile_model(model, Population.of(task), replace(training, precision="tf32"))
    tf.config.experimental.enable_tensor_float_32_execution(not trained)
    sizes = Evaluation(batches=1, batch_size=2, tokens=4, activation_batch_size=4, draws=1, conditions=())
    modtf.evaluate(model, task, evaluation=sizes)
    assert tf.config.experimental.tensor_float_32_execution_enabled() is trained


def test_tensorflow_knows_the_option_and_has_it_back():
    before = tf.config.optimizer.get_experimental_options()
    with xla_alone(), xla_alone():
        assert tf.config.optimizer.get_experimental_options()[OPTION] is True
    assert tf.config.optimizer.get_experimental_options() == {**before, OPTION: before.get(OPTION, False)}


def trace_often(python_function) -> None:
    function = tf.function(python_function)
    for n in range(8):
        function(n)  # a Python number: traced anew


def test_advice_is_withheld_and_comes_back() -> None:
    messages: list[str] = []
    collect = logging.Handler()
    collect.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    logger = tf.get_logger()
    logger.addHandler(collect)
    try:
        with no_retracing_advice():
            trace_often(lambda x: x + 1)
            logger.warning("something else")
        assert messages == ["something else"]
        trace_often(lambda x: x + 2)  # of one line of code TensorFlow complains twice at most
        assert any("triggered tf.function retracing" in message for message in messages)
    finally:
        logger.removeHandler(collect)
