"""`modtf.evaluate` of arbitrary model outputs: a clear error, or the same numbers as NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from fuzzing import anything, few, survives
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import modtf
from modtf import Evaluation, Task
from modtf.evaluation.evaluator import Evaluator
from modtf.metrics import activation_measures

TASK, R = Task(num_rules=3), 3
FEW = Evaluation(batches=2, batch_size=8, tokens=24, activation_batch_size=8, draws=1, conditions=("iid",))
MEASURES = {measure.name for measure in activation_measures()}


class Says(keras.Model):
    """A model that returns the result of a function of the features."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def call(self, features):
        return self.function(features)


def sums(features):
    return tf.reduce_sum(features["inputs"], axis=-1)


def one_hot(features, dtype=tf.float32):
    return tf.one_hot(features["rule"], R, dtype=dtype)


def evaluate(function, task=TASK, sizes=FEW):
    model = Says(function)
    model.compile(jit_compile=False)
    return modtf.evaluate(model, task, evaluation=sizes)


numbers = st.floats(width=32) | st.sampled_from([0.0, 1.0, 0.5, -1.0])
shapes = st.sampled_from([(2,), (2, 1), (2, 3), (3,), (), (0,), (2, 0), (2, 3, 1), (2, 2), (1, 3)])
NUMPYS = [np.float32, np.float64, np.float16, np.int32, np.int64, np.bool_, np.complex64, np.str_]
dtypes = st.sampled_from(NUMPYS)


@st.composite
def tensors(draw):
    """Draw tensors of any shape and type, and objects that are not tensors."""
    array = draw(arrays.arrays(np.float32, draw(shapes), elements=numbers))
    with np.errstate(all="ignore"):
        array = array.astype(draw(dtypes))
    return draw(st.sampled_from([array, tf.constant(array), array.tolist(), tf.sparse.from_dense([[1.0]]),
                                 tf.ragged.constant([[1.0], []]), keras.KerasTensor((2,))]))  # fmt: skip


outputs = anything | tensors() | st.dictionaries(
    st.sampled_from(["target", "activation", "Target", 1, ""]), anything | tensors(), max_size=3
)  # fmt: skip


def is_right(returned):
    """Whether it is what a model of TASK must return, on two examples."""
    target, activation = returned["target"], returned.get("activation")
    good = [tuple(target.shape) == (2,), target.dtype in (np.float16, np.float32, np.float64)]
    if activation is not None:
        p = np.asarray(activation, np.float64)
        good += [p.ndim == 2, len(p) == 2, p.min() >= -1e-3, np.allclose(p.sum(1), 1, atol=1.1e-3)]
    return all(good)


@few
@given(returned=outputs)
def test_outputs(returned):
    """The evaluation itself is skipped: only valid outputs pass the check on two examples."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Evaluator, "run", lambda self: self)
        patched.setattr(Evaluator, "member", lambda self, i: "passed", raising=False)
        scores = survives(lambda: evaluate(lambda features: returned), "odel")
    assert scores is None or is_right(returned)


@pytest.mark.parametrize(
    ("of_target", "of_activation"),
    [(tf.float16, tf.float16), (tf.bfloat16, tf.bfloat16), (tf.float64, tf.int32), (tf.float32, tf.bool)],
)
def test_numbers_of_other_types_give_what_numpy_finds(of_target, of_activation, batches):
    """Also where half precision would round the sums over tokens."""
    sizes = Evaluation(batches=2, batch_size=64, tokens=9000, activation_batch_size=9000, conditions=("iid",))
    module, blur = tf.constant([0, 0, 1]), 0.125 if of_activation.is_floating else 0.0

    def says(features):
        p = (1 - 2 * blur) * tf.one_hot(tf.gather(module, features["rule"]), 2) + blur
        p = tf.cast(p, of_activation)
        return {"target": tf.cast(sums(features), of_target), "activation": p}

    scores = evaluate(says, sizes=sizes)
    read = batches(TASK, 2, batch_size=64, split="test", seed=0)
    rounding = {tf.float16: 1e-3, tf.bfloat16: 1e-2}.get(of_target, 1e-6)
    loss = np.mean([np.abs(target - f["inputs"].sum(-1)).mean() for f, target in read])
    assert scores["loss"] == pytest.approx(loss, rel=rounding)
    expected = modtf.metrics.measure_all((1 - 2 * blur) * np.eye(2)[[0, 0, 1]] + blur)
    assert {name: scores[name] for name in MEASURES} == pytest.approx(expected, abs=1e-6)


def test_without_activation_there_is_performance_alone(batches):
    scores = evaluate(lambda features: {"target": sums(features)})
    assert np.isfinite(scores["loss"])
    assert all(np.isnan(scores[name]) for name in MEASURES)


def in_numpy(features):
    return {"target": tf.constant(features["inputs"].numpy().sum(-1))}


def of_two(features):
    return {"target": tf.reshape(features["inputs"], [2, 2])[:, 0]}


def odd_beyond_two(features):
    p = tf.where(tf.shape(features["rule"])[0] > 2, 0.25, 0.5) * tf.ones([tf.shape(features["rule"])[0], 2])
    return {"target": sums(features), "activation": p}


@pytest.mark.parametrize("function", [in_numpy, of_two, odd_beyond_two])
def test_what_passes_on_two_examples_alone_is_explained(function):
    with pytest.raises(ValueError, match=r"works on two examples, but fails .* keras\.ops"):
        evaluate(function)


def test_a_condition_under_which_a_model_fails_is_named():
    task = Task("mha", num_rules=2)
    few = Evaluation(batches=1, batch_size=4, tokens=40, draws=1, tokens_per_draw=40, conditions=("len3",))
    with pytest.raises(ValueError, match=r"The model fails under the condition 'len3': .*reshape"):
        evaluate(lambda f: {"target": tf.reshape(sums(f), [-1, 10])}, task, few)


@pytest.mark.parametrize("inputs", [3, 1])
def test_a_model_of_another_task_is_one_line(inputs):
    model = keras.Sequential([keras.Input([inputs]), keras.layers.Dense(1)])
    message = r"The model fails on 2 examples of mlp_regression_r3_task0 \(inputs"
    with pytest.raises(ValueError, match=message):
        evaluate(lambda features: {"target": model(features["inputs"])[:, 0]})
    with pytest.raises(ValueError, match="The model fails on 2 examples"):
        modtf.evaluate(model, TASK, evaluation=FEW)
