"""TensorFlow's advice is withheld while asked, and only then."""

import logging

import tensorflow as tf

from modtf.evaluation.retracing import no_retracing_advice


class Collect(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def trace_often(python_function) -> None:
    function = tf.function(python_function)
    for n in range(8):
        function(n)  # a Python number: traced anew


def test_advice_is_withheld_and_comes_back() -> None:
    logger, collect = tf.get_logger(), Collect()
    logger.addHandler(collect)
    try:
        with no_retracing_advice():
            trace_often(lambda x: x + 1)
            logger.warning("something else")
        assert collect.messages == ["something else"]
        trace_often(lambda x: x + 2)  # of one line of code TensorFlow complains twice at most
        assert any("triggered tf.function retracing" in message for message in collect.messages)
    finally:
        logger.removeHandler(collect)
