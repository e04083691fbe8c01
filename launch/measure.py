"""Measures what the modules of any mixture of experts specialise in, from its activations and token labels.

Examples:
    python launch/measure.py --activations=x.npz --out=atlas       # arrays: activations, labels
    python launch/measure.py --activations=x.npz --logits --top_k=2 --out=atlas
    python launch/measure.py --activations=gates.npy --labels=domains.npy --out=atlas
    python launch/measure.py --activations=routed.parquet --num_experts=64 --out=atlas      # experts, weights
"""

from dataclasses import replace

import numpy as np
from absl import flags
from tqdm import tqdm

import modtf
from modtf.analysis.routing_page import Routing, print_atlas, write_atlas
from modtf.checks import check_number
from modtf.files import check_writable
from modtf.launch.cli import run_command
from modtf.metrics.tokens.summarise import NUM_PERMUTATIONS, check_permutations

OBSERVED, UNIFORM = "observed", "uniform"
FLAGS = {
    "say from_logits=True": "give --logits",
    "Give documents=...": "Give an array `documents`, or --documents=NAME",
}


def define_flags(values: flags.FlagValues) -> None:
    """Adds the flags of this command."""

    def text(name: str, default: str | None, words: str) -> None:
        flags.DEFINE_string(name, default, words, flag_values=values)

    text(
        "activations",
        None,
        "An .npz, .safetensors or .parquet file; a folder of .npy files; one .npy file, its labels beside "
        "it; or router traces of Megatron Core, a .jsonl file or a folder of them.",
    )
    text("out", None, "The folder to write measures.html, its tables and pictures to.")
    flags.DEFINE_integer(
        "top_k", None, "Modules that a token is sent to: only their gates count.", flag_values=values
    )
    flags.DEFINE_bool(
        "logits", False, "Activations are the router's logits, before the softmax.", flag_values=values
    )
    text(
        "label_probs",
        OBSERVED,
        f"How often labels occur where it matters: {OBSERVED}, as among the tokens; {UNIFORM}; or one number "
        "for each, with commas between.",
    )
    text("array", "activations", "Name of the array of gates, [tokens, M] or [layers, tokens, M].")
    text("experts", None, "In place of gates: name of the array of the experts of each token, [tokens, k] or "
         "[layers, tokens, k]; -1 for one that was dropped.")  # fmt: skip
    text("weights", None, "With experts: name of the array of what they weigh, or of the scores of all.")
    flags.DEFINE_integer("num_experts", None, "With experts: how many there are.", flag_values=values)
    words = "With experts: those that every token goes to; left out."
    flags.DEFINE_list("shared", [], words, flag_values=values)
    text("labels", "labels", "Name of the array of labels, integers from 0 or names; or an .npy file.")
    text(
        "documents",
        None,
        "The same of the document of each token: labels are permuted over these.",
    )
    text("label_names", None, "The same of names of labels, in the order of their numbers.")
    text("layer_names", None, "The same of names of layers.")
    flags.DEFINE_integer(
        "permutations", NUM_PERMUTATIONS, "Permutations for the chance level; 0 for none.", flag_values=values
    )
    flags.DEFINE_float("confidence", 0.95, "Of the intervals.", flag_values=values)
    flags.DEFINE_integer("seed", 0, "Of the permutations.", flag_values=values)


def main(given: flags.FlagValues) -> None:
    """Reads, measures, prints and writes.

    Raises:
        OSError, ValueError: in one line, if it cannot.
    """
    if not given.activations or not given.out:
        raise ValueError(
            "Give --activations=x.npz, with arrays `activations` and `labels`, and --out=DIR, where to write."
        )
    out = check_writable(given.out, "--out")
    probs = label_probs(given.label_probs)
    check_number("--confidence", given.confidence, 0.5, 0.9999)
    routing = Routing.read(
        given.activations, given.array, given.labels, given.documents, given.label_names, given.layer_names,
        given.experts, given.weights, given.num_experts, [_expert(one) for one in given.shared],
    )  # fmt: skip
    matrix = (len(np.unique(routing.labels)), routing.activations.shape[2])
    check_permutations("--permutations", given.permutations, matrix)
    routing.check_top_k(given.top_k)
    routing.check_label_probs(probs)
    try:
        layers = modtf.measure_activations(
            tqdm(routing.chunks(), "tokens", routing.num_chunks, unit="chunk"),
            from_logits=given.logits,
            top_k=given.top_k,
            label_probs=probs,
            permutations=given.permutations,
            confidence=given.confidence,
            seed=given.seed,
            progress=lambda layers: tqdm(layers, "layers", unit="layer"),
        )
    except ValueError as error:
        raise ValueError(in_flags(str(error))) from error
    layers = [replace(layer, warnings=tuple(map(in_flags, layer.warnings))) for layer in layers]
    print(print_atlas(layers, routing.names))
    print(f"Wrote {write_atlas(layers, out, routing.names)}")


def _expert(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"--shared={text} is no number of an expert; expected numbers with commas between.")
    return int(text)


def in_flags(text: str) -> str:
    """Advice on an argument of `modtf.measure_activations` in the words of this command."""
    for argument, flag in FLAGS.items():
        text = text.replace(argument, flag)
    return text


def label_probs(text: str) -> str | list[float] | None:
    """What `--label_probs` means to `modtf.measure_activations`."""
    if text in (OBSERVED, UNIFORM):
        return None if text == OBSERVED else text
    try:
        return np.array(text.split(","), float).tolist()
    except ValueError:
        raise ValueError(
            f"--label_probs={text} is not valid; expected {OBSERVED}, {UNIFORM} or one number for each label."
        ) from None


def command() -> None:
    """The whole command."""
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
