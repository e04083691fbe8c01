"""Compiled programs: no module's answers in memory, no copies in a recurrence's loop, known products."""

import math
import re
from typing import NamedTuple

import keras
import pytest
import tensorflow as tf
from textbook_form import TEXTBOOK

from modtf import Task, build, stream
from modtf.models.architectures import ARCHITECTURES
from modtf.tasks.cell import VARIANTS
from modtf.tasks.families import FAMILIES
from modtf.training.compile import SettingLoss

BATCH = 13  # sizes that no other axis is a multiple of, so that a shape gives a tensor away
TOKENS = {arch: BATCH * FAMILIES[arch].num_tokens(Task(arch)) for arch in ("mlp", "mha")}
WIDTHS = {"mlp": 28, "mha": 44}
SOME = [name if name == "modular" else pytest.param(name, marks=pytest.mark.slow) for name in VARIANTS]
ARCHS = ["mlp", pytest.param("mha", marks=pytest.mark.slow)]
ANSWERS = {"mlp": 4 * WIDTHS["mlp"], "mha": WIDTHS["mha"]}  # width of a module's answer


class Line(NamedTuple):
    """An instruction of a program in HLO text."""

    computation: str
    name: str
    opcode: str
    shapes: list[tuple[int, ...]]  # shapes of the results
    text: str


def lines_of(text: str) -> list[Line]:
    found, computation = [], ""
    for line in text.splitlines():
        if begins := re.match(r"(?:ENTRY )?%?([\w.\-]+)(?: \(.*)? \{$", line):
            computation = begins[1]
        elif parts := re.match(r"\s+(?:ROOT )?%?([\w.\-]+) = (.*?(?:^|[\s)}]))([a-z][a-z\-]*)\((.*)$", line):
            shapes = re.findall(r"\b(?:[a-z]+\d+|pred)\[([\d,]*)\]", parts[2])
            sizes = [tuple(int(n) for n in shape.split(",") if n) for shape in shapes]
            found.append(Line(computation, parts[1], parts[3], sizes, parts[4]))
    return found


def in_memory(text: str) -> list[Line]:
    """Return the operations whose result is stored; the inside of a fusion lives in registers."""
    lines = lines_of(text)
    called = (re.findall(r"(?:calls|to_apply)=%?([\w.\-]+)", i.text) for i in lines if i.opcode != "call")
    inside = {name for names in called for name in names}
    return [i for i in lines if i.computation not in inside and i.opcode != "bitcast"]


def module_tensors(text: str, *sizes: int) -> list[Line]:
    """Return the tensors in memory with all of the axes batch, module and width, in any order."""

    def holds(shape: tuple[int, ...]) -> bool:
        each = all(any(axis % size == 0 for axis in shape) for size in sizes)
        return each and math.prod(shape) % math.prod(sizes) == 0

    return [i for i in in_memory(text) if any(map(holds, i.shapes))]


def product_flops(text: str) -> int:
    """Return the floating-point operations of a program's matrix products; loops count once."""
    lines, total = lines_of(text), 0
    shapes = {(i.computation, i.name): i.shapes[0] for i in lines if i.shapes}
    for i in [i for i in lines if i.opcode == "dot"]:
        operand, axes = re.search(r"%([\w.\-]+).*lhs_contracting_dims=\{([\d,]*)\}", i.text).groups()  # type: ignore[union-attr]
        left = shapes[i.computation, operand]
        total += 2 * math.prod(left[int(axis)] for axis in axes.split(",") if axis) * math.prod(i.shapes[0])
    return total


def compiled(function, *arguments, stage: str = "optimized_hlo") -> str:
    return tf.function(function, jit_compile=True).experimental_get_compiler_ir(*arguments)(stage=stage)


def step_text(model, task: Task) -> str:
    """Return the HLO of forward and backward pass. Adam touches only weights and would compile longer."""
    model.compile(keras.optimizers.SGD(), {"target": SettingLoss(task.setting)}, jit_compile=True)
    model.optimizer.build(model.trainable_variables)
    features, target = next(iter(stream(task, BATCH)))
    return compiled(model.train_step, (features, {"target": target}))


def test_what_is_fused_is_not_in_memory() -> None:
    x = tf.ones([6, 10])
    stored = compiled(lambda a: tf.matmul(a[:, None, :] * a[None], tf.ones([6, 10, 3])), x)
    assert module_tensors(stored, 6, 6, 10)
    assert not module_tensors(compiled(lambda a: tf.reduce_sum(a[:, None, :] * a[None], axis=1), x), 6, 6, 10)


@pytest.mark.parametrize("variant", SOME)
@pytest.mark.parametrize("arch", ARCHS)
def test_no_module_answers_in_memory(arch: str, variant: str) -> None:
    task = Task(arch, num_rules=8)
    text = step_text(build(task, variant, WIDTHS[arch]), task)
    assert len(in_memory(text)) > 20
    assert module_tensors(text, TOKENS[arch], 8, ANSWERS[arch]) == []


@pytest.mark.parametrize("arch", ARCHS)
def test_the_textbook_has_them_in_memory(arch: str) -> None:
    task = Task(arch, num_rules=8)
    model = TEXTBOOK[ARCHITECTURES[arch]](task, "gt_modular", WIDTHS[arch])
    features, _ = next(iter(stream(task, BATCH)))
    model(features)
    assert module_tensors(compiled(lambda f: model(f), features), TOKENS[arch], 8, ANSWERS[arch])


@pytest.mark.parametrize("variant", SOME)
def test_recurrence_writes_tokens_in_place(variant: str) -> None:
    """No iteration copies the tensors that hold all tokens."""
    task = Task("rnn", num_rules=4)
    model = build(task, variant, 12)
    text = step_text(model, task)
    (first,) = re.findall(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    in_loops = [i for i in in_memory(text) if i.computation != first and i.opcode == "copy"]
    token = model.shared_state.gates * model.num_modules * BATCH
    assert all(math.prod(shape) < task.family.training_length * token for i in in_loops for shape in i.shapes)


@pytest.mark.parametrize("variant", SOME)
def test_flops_are_those_of_the_compiled_products(variant: str) -> None:
    """The mlp has only matrix products."""
    task = Task("mlp", num_rules=4)
    model = build(task, variant, 20)
    features, _ = next(iter(stream(task, BATCH)))
    assert product_flops(compiled(lambda f: model(f), features, stage="hlo")) == BATCH * model.forward_flops()
