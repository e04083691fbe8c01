"""Reading compiled programs: known products, and no module's answers in memory (goal 6)."""

import math
import re

import hlo
import keras
import numpy as np
import pytest
import tensorflow as tf

from modtf import Task, build, stream
from modtf.cell import VARIANTS
from modtf.families import FAMILIES
from modtf.launch.benchmark.textbook import TEXTBOOK
from modtf.models.architectures import ARCHITECTURES
from modtf.training.loss import SettingLoss

BATCH = 13  # sizes that no other axis is a multiple of, so that a shape gives a tensor away
TOKENS = {arch: BATCH * FAMILIES[arch].num_training_tokens for arch in ("mlp", "mha")}
WIDTHS = {"mlp": 28, "mha": 44}
SOME = [name if name == "modular" else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
ARCHS = ["mlp", pytest.param("mha", marks=pytest.mark.slow)]
ANSWERS = {"mlp": 4 * WIDTHS["mlp"], "mha": WIDTHS["mha"]}  # width of a module's answer


def compiled(function, *arguments) -> str:
    return function.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")


def step_text(model, task: Task) -> str:
    """Forward and backward; Adam would add compilation and touches weights alone."""
    model.compile(keras.optimizers.SGD(), {"target": SettingLoss(task.setting)}, jit_compile=True)
    model.optimizer.build(model.trainable_variables)
    features, target = next(iter(stream(task, BATCH)))
    return compiled(tf.function(model.train_step, jit_compile=True), (features, {"target": target}))


def test_a_dense_layer() -> None:
    x, w = tf.ones([5, 7]), tf.ones([7, 11])
    text = compiled(tf.function(lambda a, b: tf.matmul(a, b) + 1.0, jit_compile=True), x, w)
    assert hlo.product_flops(text) == 2 * 5 * 7 * 11


def test_what_is_fused_is_not_in_memory() -> None:
    x = tf.ones([6, 10])
    stored = tf.function(lambda a: tf.matmul(a[:, None, :] * a[None], tf.ones([6, 10, 3])), jit_compile=True)
    fused = tf.function(lambda a: tf.reduce_sum(a[:, None, :] * a[None], axis=1), jit_compile=True)
    assert hlo.module_tensors(compiled(stored, x), 6, 6, 10)
    assert not hlo.module_tensors(compiled(fused, x), 6, 6, 10)


@pytest.mark.parametrize("variant", SOME)
@pytest.mark.parametrize("arch", ARCHS)
def test_no_module_answers_in_memory(arch: str, variant: str) -> None:
    task = Task(arch, num_rules=8)
    text = step_text(build(task, variant, WIDTHS[arch]), task)
    assert len(hlo.in_memory(text)) > 20
    assert hlo.module_tensors(text, TOKENS[arch], 8, ANSWERS[arch]) == []


@pytest.mark.parametrize("variant", SOME)
def test_recurrence_writes_tokens_in_place(variant: str) -> None:
    """No iteration copies what is kept of all tokens."""
    task = Task("rnn", num_rules=4)
    model = build(task, variant, 12)
    text = step_text(model, task)
    first = re.search(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    assert first is not None
    in_loops = [i for i in hlo.in_memory(text) if i.computation != first[1] and i.opcode == "copy"]
    token = model.shared_state.gates * model.num_modules * BATCH
    assert all(math.prod(shape) < task.family.training_length * token for i in in_loops for shape in i.shapes)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_textbook_has_them_in_memory(arch: str) -> None:
    task = Task(arch, num_rules=8)
    model = TEXTBOOK[ARCHITECTURES[arch]](task, "gt_modular", WIDTHS[arch])
    features, _ = next(iter(stream(task, BATCH)))
    model(features)
    text = compiled(tf.function(lambda f: model(f), jit_compile=True), features)
    assert hlo.module_tensors(text, TOKENS[arch], 8, ANSWERS[arch])


@pytest.mark.parametrize("variant", SOME)
def test_flops_are_those_of_the_compiled_products(variant: str) -> None:
    """The mlp has products alone."""
    task = Task("mlp", num_rules=4)
    model = build(task, variant, 20)
    features, _ = next(iter(stream(task, BATCH)))
    forward = tf.function(lambda f: model(f), jit_compile=True)
    text = forward.experimental_get_compiler_ir(features)(stage="hlo")
    assert hlo.product_flops(text) == BATCH * model.forward_flops()


def test_flops_of_attention_and_recurrence() -> None:
    mha = build(Task("mha", num_rules=2), "monolithic", 8)
    products = sum(np.prod(v.shape) for v in mha.trainable_variables if v.name == "kernel")
    heads, k, tokens = 4, 8, 10
    assert mha.forward_flops() == 2 * tokens * products + 2 * 2 * tokens * tokens * heads * k
    rnn = build(Task("rnn", num_rules=2), "gt_modular", 8)
    products = sum(np.prod(v.shape) for v in rnn.trainable_variables if v.name == "kernel")
    assert rnn.forward_flops() == 2 * tokens * products
