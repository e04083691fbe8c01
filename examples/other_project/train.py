"""Train a plain Keras model on the data of modtf."""

import argparse

import keras
import numpy as np
import tensorflow_datasets as tfds

import modtf  # registers "modarch_rules" with tfds


def build_model(num_rules: int) -> keras.Model:
    """Return a model of y = (row of a table, looked up by the rule) . inputs."""
    inputs = keras.Input([2], name="inputs")
    rule = keras.Input([], dtype="int64", name="rule")
    row = keras.layers.Embedding(num_rules, 2, name="table")(rule)
    return keras.Model({"inputs": inputs, "rule": rule}, keras.layers.Dot(axes=1)([row, inputs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="modarch_rules/mlp_regression_r4_task0")
    parser.add_argument("--data_dir", default=None)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()

    # "train" is endless and needs no disk; the other splits are prepared on first use
    read = {"data_dir": options.data_dir, "batch_size": 256, "as_supervised": True}
    train = tfds.load(options.name, split="train", download=False, **read)
    (test, scaled), info = tfds.load(options.name, split=["test", "test_scale2"], with_info=True, **read)

    model = build_model(info.features["rule"].num_classes)
    model.compile(keras.optimizers.Adam(0.02), loss="mean_absolute_error")
    model.fit(train, steps_per_epoch=options.steps // 3, epochs=3, verbose=2)

    print(f"modtf {modtf.__version__} in {modtf.__file__}")
    print(f"test loss {model.evaluate(test, verbose=0):.4f}")
    print(f"test_scale2 loss {model.evaluate(scaled, verbose=0):.4f}")
    table = model.get_layer("table").get_weights()[0]
    truth = np.stack([info.metadata["alpha"], info.metadata["beta"]], axis=1)
    for name, learned, true in zip(info.features["rule"].names, table, truth, strict=True):
        print(f"{name}: learned {learned.round(2)}, true {true.round(2)}")


if __name__ == "__main__":
    main()
