"""The base class of the TFDS builders of images, and the types of their features."""

import zlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from modtf.datasets.modarch_rules.modarch_rules_dataset_builder import Builder as RulesBuilder
from modtf.datasets.streaming import stream

FAST = 1  # level of zlib: most of the gain comes from an image's background


class FloatImage(tfds.features.Image):
    """An image of float32 numbers, or several of one size, exact to the last bit.

    TFDS's own float32 images have a single channel. Black is 0 and white 1. Some numbers of an image that was
    made smaller lie slightly outside.

    Args:
        shape: (height, width, channels), or (number, height, width, channels).
    """

    def __init__(self, shape: Sequence[int]):
        super().__init__(shape=tuple(shape[-3:]))
        self._shape, self._dtype = tuple(shape), np.dtype("float32")

    def encode_example(self, image: Any) -> bytes:
        """Return the numbers of an image, compressed."""
        if np.shape(image) != self._shape:
            raise ValueError(f"An image has the shape {np.shape(image)}; expected {self._shape}.")
        return zlib.compress(np.ascontiguousarray(image, "<f4").tobytes(), FAST)

    def decode_example(self, example: tf.Tensor) -> tf.Tensor:
        """Return the image of these bytes."""
        numbers = tf.io.decode_raw(tf.io.decode_compressed(example, "ZLIB"), tf.float32)
        return tf.reshape(numbers, self._shape)

    def decode_example_np(self, example: bytes) -> np.ndarray:
        """Return the same without TensorFlow."""
        return np.frombuffer(zlib.decompress(example), "<f4").reshape(self._shape)

    def repr_html(self, ex: np.ndarray) -> str:
        """Return a thumbnail, with several images next to each other."""
        shown = np.concatenate(list(ex), axis=1) if ex.ndim > 3 else ex
        return super().repr_html(np.uint8(255 * np.clip(shown, 0, 1)))

    def to_json_content(self) -> dict[str, Any]:
        """Return what `from_json_content` reads."""
        return {"shape": list(self._shape)}

    @classmethod
    def from_json_content(cls, value: Any) -> "FloatImage":
        """Return the feature that was saved."""
        return cls(value["shape"])


def image_feature(shape: Sequence[int], dtype: str) -> tfds.features.Image:
    """Return the feature of images of this shape and type."""
    return tfds.features.Image(shape=tuple(shape)) if dtype == "uint8" else FloatImage(shape)


def side_by_side(element: dict[str, Any]) -> dict[str, Any]:
    """Join an example's images into one, if it has several: `tfds.show_examples` shows single ones.

    Example:
        >>> tfds.show_examples(split.map(side_by_side), info)  # doctest: +SKIP
    """
    images = element["inputs"]
    return {**element, "inputs": tf.concat(tf.unstack(images), axis=1) if images.shape.rank > 3 else images}


class ImageBuilder(RulesBuilder):
    """A builder whose examples are images with a class: `inputs` is an image, `target` a named class."""

    RELEASE_NOTES: ClassVar[dict[str, str]] = {
        "2.0.0": "`inputs` are images, `target` is a ClassLabel.",
        "1.0.0": "Initial release.",
    }
    VERSION = tfds.core.Version("2.0.0")

    def _features(self, num_tokens: int | None = None) -> tfds.features.FeaturesDict:
        task = self.builder_config.task
        rule = tfds.features.ClassLabel(names=list(task.family.rule_names(task)))
        return tfds.features.FeaturesDict(
            {
                "inputs": image_feature(task.family.token_shape(task), task.input_dtype),
                "rule": tfds.features.Sequence(rule, length=task.family.num_tokens(task)),
                "target": tfds.features.ClassLabel(names=self._class_names()),
            }
        )

    def _class_names(self) -> list[str]:
        """Return the names of the classes."""
        raise NotImplementedError

    def _arranged(self, features: dict[str, tf.Tensor], target: tf.Tensor) -> dict[str, tf.Tensor]:
        element = super()._arranged(features, target)
        return {**element, "target": tf.cast(target, tf.int64)}

    def download_and_prepare(self, **kwargs: Any) -> None:
        """Prepare the finite splits; see `modarch_rules`."""
        stream(self.builder_config.task, 1, "test")  # fails here, before any write, if images are missing
        super().download_and_prepare(**kwargs)
