"""Compiles a training program for a card that is not there, and counts what a step gives the card to do.

Needs JAX with its CUDA plug-in, no card, and XLA's description of one, such as h100_sxm.txtpb, from
xla/backends/gpu/target_config/specs of its repository:

    XLA_FLAGS=--xla_gpu_autotune_level=0 KERAS_BACKEND=jax \
        python docs/accelerator/operations.py --target=h100_sxm.txtpb --arch=rnn --members=25

One line per form of the kernels: operations that are started in a step, data included, and the memory of the
program. Nothing is timed; products are not tuned without a card.
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

import jax

jax.config.update("jax_platforms", "cpu")  # before anything looks for a card

import numpy as np  # noqa: E402
from jax.experimental import topologies  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from bench import cell_of_row, population_of  # noqa: E402
from steps import BATCH_SIZE, training_state, training_steps  # noqa: E402

from modtf.datasets.device import DeviceStream  # noqa: E402
from modtf.models.build import build_cell  # noqa: E402
from modtf.models.kernels.by_device import ACCELERATOR, use_kernels  # noqa: E402
from modtf.tasks.protocol import KERNELS, PRECISIONS  # noqa: E402
from modtf.training.arithmetic import STEPS_PER_PROGRAM, steps_that_fit  # noqa: E402
from modtf.training.compile import compile_model  # noqa: E402

#: opcodes for which nothing is started
FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "while", "call"}
FREE |= {"fusion-done", "copy-done", "async-done"}

COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+)(?: \(.*)? \{$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (.*)$")
OPCODE = re.compile(r"(?:^|[\s)}])([a-z][a-z\-]*)\(")


def operations(text: str) -> int:
    """Count the operations that a program in HLO text starts, loops as often as they turn."""
    by_computation: dict[str, list[tuple[str, str]]] = defaultdict(list)  # of (opcode, instruction)
    computation = ""
    for line in text.splitlines():
        if found := COMPUTATION.match(line):
            computation = found[1]
        elif (instruction := INSTRUCTION.match(line)) and (code := OPCODE.search(instruction[1])):
            by_computation[computation].append((code[1], instruction[1]))

    def started(computation: str) -> int:
        total = 0
        for opcode, instruction in by_computation[computation]:
            inner = re.search(r"(?:body|to_apply)=%?([\w.\-]+)", instruction)
            if opcode == "while" and inner:
                turns = re.search(r'known_trip_count":\{"n":"(\d+)"', instruction)
                total += (int(turns[1]) if turns else 1) * started(inner[1])
            elif opcode == "call" and inner:
                total += started(inner[1])
            elif opcode not in FREE:
                total += 1
        return total

    entry = re.search(r"^ENTRY %?([\w.\-]+)", text, re.MULTILINE)
    if entry is None:
        raise ValueError("Expected a program with an ENTRY computation.")
    return started(entry[1])


def compiled(given: argparse.Namespace, form: str):
    """Return the program of some steps that make their own data, compiled for the card; and their number."""
    topology = topologies.get_topology_desc(
        platform="cuda", target_config=given.target.read_text(encoding="utf-8"), topology="1x1x1"
    )
    mesh = topologies.make_mesh(topology, (1,), ("card",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())

    def shape_of(array):
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=place)

    row = {"arch": given.arch, "num_rules": given.rules, "width": given.width, "variant": given.variant}
    row |= {"members": given.members, "precision": given.precision, "options": {}}
    cell = cell_of_row(row)
    population, training = population_of(cell), cell.protocol.training
    model = build_cell(cell, population)
    compile_model(model, population, training)
    stream = DeviceStream(population, BATCH_SIZE)
    count = steps_that_fit(stream.bytes_per_step, STEPS_PER_PROGRAM)
    take_steps = training_steps(model)

    def steps(state, first):
        features, target = stream.make(first, count, at_once=form == ACCELERATOR)
        return take_steps(state, (features, {"target": target}))

    with use_kernels(form):
        state = jax.tree.map(shape_of, training_state(model))
        return jax.jit(steps, donate_argnums=0).lower(state, shape_of(np.int32(0))).compile(), count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--target", type=Path, required=True, help="XLA's description of a card")
    parser.add_argument("--arch", default="mlp")
    parser.add_argument("--rules", type=int, default=8)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--variant", default="modular")
    parser.add_argument("--members", type=int, default=25)
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    given = parser.parse_args()
    for form in KERNELS:
        program, steps = compiled(given, form)
        memory = program.memory_analysis()
        held = (memory.argument_size_in_bytes + memory.temp_size_in_bytes) / 2**20
        print(
            f"{given.arch} R={given.rules} e={given.width} P={given.members} {given.precision}, "
            f"kernels {form}: {operations(program.as_text()) / steps:.0f} operations a step, {held:,.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
