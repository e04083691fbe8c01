"""Several routed layers, conditions in groups, probes and classes, against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from registering import forgotten

from modtf import Evaluation, Population, Task, stream
from modtf.datasets.families.base import RuleData
from modtf.evaluation.evaluator import Evaluator
from modtf.evaluation.outputs import find_outputs
from modtf.metrics import measure_all
from modtf.tasks.families import FAMILIES, Condition, Family, register_family
from modtf.tasks.families.mlp import MLP
from modtf.tasks.observed import Place, Probe

LEAF = np.array([[0.8, 0.2], [0.3, 0.7], [0.5, 0.5]], np.float32)  # p of the rows of the place "leaf"
SIZES = Evaluation(batches=3, batch_size=8, tokens=96, activation_batch_size=8, draws=2, tokens_per_draw=24)


class Data(RuleData):
    """Calls of modules: tokens 0 and 1 have rules 0 to 2, token 2 rule 3; inputs are of the whole example."""

    @staticmethod
    def parameters(task):
        return {}

    def num_uniforms(self, num_tokens):
        return 6

    def examples(self, index, uniforms, parameters, *, shift=0.0):  # type: ignore[override]
        inputs = uniforms.inputs[:, :4] + tf.cast(shift, uniforms.inputs.dtype)
        rule = tf.cast(uniforms.inputs[:, 4:] * 3, tf.int32)
        rule = tf.concat([rule, tf.fill([rule.shape[0], 1], 3)], axis=1)
        return inputs, rule, tf.cast(uniforms.inputs[:, 0] * 3, tf.int32)


def up(n):
    """Plus n."""
    return Condition(f"up{n}", f"+{n}", options={"shift": np.float32(n)}, group="up", while_training=n > 1)


class Calls(Family):
    title, data, architecture, settings = "Calls", Data, "mlp", ("categorical",)
    training_length, inputs_by_token, target_by_token = 3, False, False
    conditions = (
        Condition("iid", "as in training", True),
        *(up(n) for n in range(1, 4)),
        Condition("down", "minus 1", options={"shift": np.float32(-1)}, group="below"),
    )
    groups, headline = ("up", "below"), "up"
    published, quick = MLP.published, MLP.quick
    token_shape = staticmethod(lambda task: (4,))
    num_classes = staticmethod(lambda task: 3)

    def places(self, task):
        return {
            "leaf": Place("leaf", 3, ("a", "b", "c"), tokens=slice(2), rules={0: 0, 1: 1, 2: 2}),
            "root": Place("root", 1, tokens=(2,), rules=(None, None, None, 0)),
            "absent": Place("absent", 4),
        }

    def probes(self, task):
        return (Probe("largest", "logits", Largest, rows), Probe("absent", "nothing", Largest, rows))


class Largest(keras.metrics.Metric):
    """The largest logit."""

    def __init__(self, population, width):
        super().__init__(name="largest")
        self.largest = self.add_variable([], "zeros", name="value")

    def update_state(self, target, output, sample_weight=None):
        self.largest.assign(ops.maximum(self.largest, ops.max(output)))


def rows(found):
    return {("largest", name): state["value"] for name, state in found.items()}


class Model(keras.Model):
    """Knows rules alone; its answer is the sum of inputs in every class but the first."""

    def call(self, features):
        logits = ops.sum(features["inputs"], axis=1, keepdims=True) * np.array([0.0, 1.0, -1.0], "float32")
        leaf = ops.take(LEAF, features["rule"][:, :2], axis=0)
        return {
            "target": logits, "logits": logits, "activation_leaf": leaf,
            "activation_root": ops.ones_like(logits[:, None]) / 3,
        }  # fmt: skip


@pytest.fixture(scope="module")
def task():
    with forgotten(FAMILIES):
        register_family("calls")(Calls)
        yield Task("calls", "categorical", num_rules=4)


@pytest.fixture(scope="module")
def evaluator(task):
    model = Model()
    model.compile(jit_compile=False)
    return Evaluator(model, Population.of(task), SIZES)


@pytest.fixture(scope="module")
def scores(evaluator):
    return evaluator.run()


def test_performance_of_classes_and_of_groups(task, scores):
    for condition in task.family.conditions:
        found = stream(task, 8, "test", condition=condition.name).take(3)
        sums = np.stack([f["inputs"].numpy().sum(1) for f, _ in found])
        target = np.stack([t for _, t in found])
        logits = sums[..., None] * [0.0, 1.0, -1.0]
        loss = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, target[..., None], -1)[..., 0]
        error = 100 * (logits.argmax(-1) != target)
        for measure, values in {"loss": loss, "error": error, "largest": logits.max()}.items():
            row = scores.rows[measure, condition.name, ""]
            np.testing.assert_allclose(row, [np.mean(values)], rtol=1e-5, err_msg=condition.name)
    for measure in ("loss", "error"):
        mean = np.mean([scores.rows[measure, f"up{n}", ""] for n in (1, 2, 3)])
        assert scores.rows[measure, "up", ""] == pytest.approx(mean)
        assert scores.rows[measure, "below", ""] == scores.rows[measure, "down", ""]
    assert ("largest", "up", "") not in scores.rows


def test_activation_of_places(evaluator, scores):
    assert evaluator.num_modules == {"leaf": 2, "root": 3}
    np.testing.assert_allclose(scores.activation["leaf"], LEAF[None], atol=1e-6)
    np.testing.assert_allclose(scores.activation["root"], np.full([1, 1, 3], 1 / 3))
    for name, value in measure_all(LEAF).items():
        assert scores.rows[name, "iid", "leaf"] == pytest.approx(value, abs=1e-6)
        assert scores.member(0)[f"{name}_leaf"] == scores.rows[name, "iid", "leaf"][0]
    assert {place for _, _, place in scores.rows} == {"", "leaf", "root"}


@pytest.mark.usefixtures("scores")  # what reads probes was made for it, and for nothing after
def test_while_training_there_are_fewer_conditions_and_no_probes(task, evaluator):
    assert task.family.while_training == ("iid", "up2", "up3")
    found = evaluator.on(SIZES.smaller(1, task.family.while_training), "validation").run()
    performance = {(measure, condition) for measure, condition, place in found.rows if not place}
    assert performance == {(m, c) for m in ("loss", "error") for c in ("iid", "up2", "up3")}
    assert len(evaluator._of_performance._readers) == 1  # of all conditions


@pytest.mark.parametrize(
    ("output", "change", "message"),
    [
        (
            "target",
            lambda v: v[:, 0],
            r"'target' has the shape \(2,\) .* expected \(2, 3\): one logit per class",
        ),
        ("activation_leaf", lambda v: v[:, :1], r"expected \(2, 2, 'M'\): the weight of each of M modules"),
        ("activation_root", lambda v: 2 * v, "'activation_root' lies between .* Apply a softmax"),
    ],
)
def test_what_a_model_must_return(task, output, change, message):
    class Other(Model):
        def call(self, features):
            outputs = super().call(features)
            return {**outputs, output: change(outputs[output])}

    with pytest.raises(ValueError, match=message):
        find_outputs(Other(), Population.of(task))


def test_rows_that_there_are_not():
    assert Place("a", 2, rules={1: 0, 3: 1}).rows(4) == (-1, 0, -1, 1)
    for rules in ((0, 2), {5: 0}, (0, -2)):
        with pytest.raises(ValueError, match=r"'a' has rules=.* expected for each of 2 rules None or a row"):
            Place("a", 2, rules=rules).rows(2)
    with pytest.raises(ValueError, match="num_rules=2 and 1 rule_names"):
        Place("a", 2, ("only",))


def test_a_place_under_another_name(task, monkeypatch):
    monkeypatch.setattr(Calls, "places", lambda self, task: {"leaf": Place("leaves", 4)})
    with pytest.raises(
        ValueError, match="'calls' has the place 'leaves' under the name 'leaf'; expected the"
    ):
        task.places  # noqa: B018
