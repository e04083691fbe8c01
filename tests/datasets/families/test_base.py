"""A user's family: two methods are enough, and an error in them gives one clear line."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import modtf  # noqa: F401  registers the builder
from modtf import Condition, Family, Option, Task, stream
from modtf.datasets.families.base import RuleData
from modtf.tasks.families.mlp import MLP


class Gains(RuleData):
    """y = gain_c * (sum of x)"""

    @staticmethod
    def parameters(task):
        return {"gain": np.random.RandomState(task.data_seed).randn(task.num_rules)}

    def outputs(self, parameters, inputs, rule):
        return tf.gather(parameters["gain"], rule) * tf.reduce_sum(inputs, axis=-1)


class Toy(Family):
    title = "Toy"
    data = Gains
    architecture = "mlp"
    training_length = 4
    options = (
        Option("shape", "round", "how it looks", choices=("round", "very_flat"), always_named=True),
        Option("noise", 0.0, "how much", high=10.0),
        Option("depth", 1, "how deep", choices=(1, 2)),
    )
    conditions = (
        Condition("iid", "as in training", in_distribution=True),
        Condition("scale3", "inputs x 3", scale=3.0),
        Condition("len7", "7 tokens", seq_len=7),
        Condition("seen", "the training examples", split="train"),
    )
    headline = "scale3"
    published = MLP.published
    quick = MLP.quick

    def token_width(self, task):
        return 3


@pytest.mark.parametrize("width", [1, 3, 4])
@pytest.mark.parametrize("is_sequence", [True, False])
def test_two_methods_are_enough(registered, draw, width, is_sequence):
    family = type("Wide", (Toy,), {"token_width": lambda self, task: width, "is_sequence": is_sequence})
    tasks = [Task(registered(family), num_rules=3, data_seed=d) for d in (0, 1)]
    [(inputs, rule, target)] = draw(tasks, 1, seed=[5, 6], batch_size=500, split="test")
    tokens = (4,) if is_sequence else ()
    assert inputs.shape == (500, 2, *tokens, width)
    assert rule.shape == target.shape == (500, 2, *tokens)
    assert abs(inputs.var() - 1) < 0.15
    gains = np.stack([np.random.RandomState(d).randn(3) for d in (0, 1)])
    for member in range(2):
        expected = gains[member][rule[:, member]] * inputs[:, member].sum(-1)
        np.testing.assert_allclose(target[:, member], expected, rtol=1e-5, atol=1e-5)
    [alone] = draw(tasks[1], 1, seed=6, batch_size=500, split="test")
    np.testing.assert_array_equal(alone[0], inputs[:, 1])


def test_rules_are_as_frequent_as_the_family_says(registered, draw):
    name = registered(type("Uneven", (Toy,), {"rule_probs": lambda self, task: (0.7, 0.2, 0.1)}))
    [(_, rule, _)] = draw(Task(name, num_rules=3), 1, batch_size=1000)
    np.testing.assert_allclose(np.bincount(rule.ravel()) / rule.size, [0.7, 0.2, 0.1], atol=0.03)
    name = registered(type("Uneven", (Toy,), {"rule_probs": lambda self, task: (7, 2, 1)}))
    with pytest.raises(ValueError, match="expected numbers of at least 0 that sum to 1"):
        draw(Task(name, num_rules=3), 1, batch_size=4)


class NoOutputs(RuleData):
    parameters = Gains.parameters


class FlatInputs(Gains):
    def inputs(self, uniforms, num_tokens):
        return uniforms


class WideOutputs(Gains):
    def outputs(self, parameters, inputs, rule):
        return inputs


class NoParameters(Gains):
    @staticmethod
    def parameters(task):
        return None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (NoOutputs, r"data of the family 'toy', NoOutputs, do not define outputs"),
        (dict, r"must be a subclass of modtf.datasets.families.base.RuleData, received <class 'dict'>"),
        ("no_such_module:Gains", r"'no_such_module:Gains', cannot be imported: No module named"),
        ("modtf.tasks.task:Gains", r"cannot be imported: .*no attribute 'Gains'.*'package.module:Class'"),
        (FlatInputs, r"FlatInputs.inputs returned the shape \(1024, 12\); expected \(1024, 4, 3\)"),
        (WideOutputs, r"WideOutputs.outputs returned the shape \(1024, 4, 3\); expected \(1024, 4\)"),
        (NoParameters, r"NoParameters.parameters\(task\) returned None; expected a dict of arrays by name"),
    ],
)
def test_what_is_wrong_is_said(registered, data, message):
    name = registered(type("Broken", (Toy,), {"data": data}))
    with pytest.raises(ValueError, match=message):
        stream(Task(name), batch_size=16)


def test_tfds_knows_a_family_from_outside(registered, tmp_path):
    configs = tfds.builder_cls("modarch_rules").builder_configs
    before = len(configs)
    registered(Toy)
    assert len(configs) == before + 2 * 2 * 5 * 5
    assert "toy_very_flat_classification_r8_task4" in list(configs)
    task = Task("toy", num_rules=3, shape="very_flat", noise=0.25, depth=2)
    assert configs[task.name].task == task
    assert task.name == "toy_very_flat_noise0.25_depth2_regression_r3_task0"
    assert "toy_very_flat_noise0.250_depth2_regression_r3_task0" not in configs
    assert "toy_very_flat_noise1e3_regression_r3_task0" not in configs, "above its bound"
    assert "toy_regression_r3_task0" not in configs, "its shape is always named"
    name = f"modarch_rules/{task.name}_validation3_test2"
    names = ["test", "test_scale3", "test_len7", "test_seen"]
    splits = tfds.load(name, split=names, data_dir=tmp_path, batch_size=-1)
    assert [split["inputs"].shape.as_list() for split in splits] == [
        [2, 4, 3],
        [2, 4, 3],
        [2, 7, 3],
        [2, 4, 3],
    ]
    train = next(iter(tfds.load(name, split="train", data_dir=tmp_path, batch_size=256)))
    np.testing.assert_array_equal(splits[3]["target"], train["target"][:2])
    np.testing.assert_allclose(splits[1]["target"], 3 * splits[0]["target"], rtol=1e-5)
