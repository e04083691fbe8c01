"""Keeps TensorFlow's advice on retracing for those who retrace."""

import contextlib
import logging
from collections.abc import Iterator

import tensorflow as tf


@contextlib.contextmanager
def no_retracing_advice() -> Iterator[None]:
    """While it lasts, TensorFlow does not warn of functions traced again and again.

    It counts traces by line of code: five models, or sequences of five lengths, one after the other look to
    it like one function that is retraced at every call, though each is traced once and kept.
    """

    def keep(record: logging.LogRecord) -> bool:
        return "triggered tf.function retracing" not in record.getMessage()

    logger = tf.get_logger()
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)
