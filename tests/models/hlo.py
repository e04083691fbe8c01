"""Reads the optimised program that XLA compiled: its tensors in memory and its matrix products."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+)(?: \(.*)? \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_ARRAY = re.compile(r"\b([a-z]+\d+|pred)\[([\d,]*)\]")
_OPCODE = re.compile(r"(?:^|[\s)}])([a-z][a-z\-]*)\(")
_INSIDE = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")


@dataclass(frozen=True)
class Instruction:
    """One line of a program: its name, computation, opcode, the shapes of its arrays, and its text."""

    name: str
    computation: str
    opcode: str
    shapes: tuple[tuple[int, ...], ...]
    text: str


def instructions(text: str) -> Iterator[Instruction]:
    """All instructions of a program in HLO text."""
    computation = ""
    for line in text.splitlines():
        if found := _COMPUTATION.match(line):
            computation = found[1]
        elif computation and (found := _INSTRUCTION.match(line)):
            name, rest = found.groups()
            opcode = _OPCODE.search(rest)
            if opcode is not None:
                yield Instruction(name, computation, opcode[1], _shapes(rest[: opcode.start(1)]), rest)


def in_memory(text: str) -> list[Instruction]:
    """The instructions whose result is a tensor in memory.

    What is inside a fusion or a reduction lives in registers; only the fusion's result is stored.
    """
    everything = list(instructions(text))
    inside = {
        name
        for instruction in everything
        if instruction.opcode != "call"
        for name in _INSIDE.findall(instruction.text)
    }
    return [i for i in everything if i.computation not in inside and i.opcode != "bitcast"]


def module_tensors(text: str, batch: int, modules: int, width: int) -> list[Instruction]:
    """The tensors in memory that hold `width` numbers per example and module, [batch, modules, width],
    in any order of axes and whatever other axes there are (tokens, members).

    Choose sizes of which none is a multiple of another and no product appears by chance.
    """

    def holds(shape: tuple[int, ...]) -> bool:
        return all(any(axis % size == 0 for axis in shape) for size in (batch, modules, width)) and (
            math.prod(shape) % (batch * modules * width) == 0
        )

    return [i for i in in_memory(text) if any(holds(shape) for shape in i.shapes)]


def product_flops(text: str) -> int:
    """Floating-point operations of the matrix products of a program, loops counted once."""
    everything = list(instructions(text))
    shapes = {(i.computation, i.name): i.shapes[0] for i in everything if i.shapes}
    total = 0
    for i in everything:
        if i.opcode == "dot":
            operand = re.search(r"dot\([^%)]*%([\w.\-]+)", i.text)
            contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", i.text)
            assert operand is not None, i.text
            assert contracted is not None, i.text
            left = shapes[i.computation, operand[1]]
            depth = math.prod(left[int(axis)] for axis in contracted[1].split(",") if axis)
            total += 2 * depth * math.prod(i.shapes[0])
    return total


def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(n) for n in dims.split(",") if n) for _, dims in _ARRAY.findall(text))
