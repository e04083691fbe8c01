"""Measures what the experts of any mixture of experts specialise in, from its activations and token labels.

Examples:
    python launch/measure.py --example
    python launch/measure.py --activations=x.npz --out=report       # arrays: activations, labels
    python launch/measure.py --activations=x.npz --logits --top_k=2 --out=report
    python launch/measure.py --activations=gates.npy --labels=domains.npy --out=report
    python launch/measure.py --activations=early.npz --activations=late.npz --out=compared   # same tokens
    python launch/measure.py --activations=routed.parquet --num_experts=64 --out=report    # experts, weights
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from absl import flags

from modtf.base.checks import check_number
from modtf.base.files import check_writable, replacing
from modtf.base.words import progress_bar
from modtf.launch.cli import Definer, run_command
from modtf.routing.analyses.registry import ANALYSES, FEWEST, chosen_analyses, run_analyses
from modtf.routing.formats.registry import FORMATS
from modtf.routing.formats.source import by_number
from modtf.routing.measuring.summarise import NUM_PERMUTATIONS

if TYPE_CHECKING:  # --help does without: a page needs SciPy, pandas and matplotlib
    from modtf.routing import Analysed, Routing
    from modtf.routing.measuring import LayerMeasures

EXAMPLE_OUT = "example_report"
OBSERVED, UNIFORM = "observed", "uniform"
SATURATION = "saturation"  # of the last file
FLAGS = {
    "say from_logits=True": "give --logits",
    "Give documents=...": "Give an array `documents`, or --documents=NAME",
    "Give labels=...": "Give an array `labels`, or --labels=NAME",
    "Give shared=...": "Give --shared=...",
    "leave out from_logits=True": "leave out --logits",
    "permutations=": "--permutations=",
}


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    words = "A file or folder with routing, of any format that docs/formats.md lists. Repeat it to compare "
    words += "models on the same tokens; the last file is the last checkpoint."
    define.multi_string("activations", None, words)
    words = "The format of the files. By default it is recognised by their content. One of "
    define.string("format", None, f"{words}{', '.join(FORMATS)}.")
    define.string("out", None, "The folder for measures.html with its tables and pictures.")
    words = "Measure the routing that ships with modtf, of a small language model with eight languages and "
    words += f"two layers of eight experts. The default of --out is {EXAMPLE_OUT} then."
    define.bool("example", False, words)
    words = "The number k of experts that a token is sent to. Only their gates count. Formats without k need "
    define.integer("top_k", None, f"{words}it.")
    define.bool("logits", False, "The activations are the router's logits, before the softmax.")
    words = f"The probabilities of labels: {OBSERVED}, {UNIFORM}, or numbers, separated by commas, in the "
    words += "order of the labels' numbers, of the alphabet for texts, of frequency for tokens. Observed "
    define.string("label_probs", OBSERVED, f"{words}means: as frequent as among the tokens.")
    words = "The name of the array of gates, [tokens, M] or [layers, tokens, M]."
    define.string("array", "activations", words)
    words = "Instead of --array: the name of the array of each token's experts, [tokens, k] or [layers, "
    define.string("experts", None, f"{words}tokens, k]. -1 is a dropped choice.")
    words = "For tables: which columns are token, layer, slot, expert, weight, count, document or label, "
    define.list("columns", [], f"{words}separated by commas: token=step,document=text.")
    define.integer("num_layers", None, "The number of routed layers, for formats that do not store it.")
    words = "With --experts: the name of the array of their weights, or of the scores of all experts."
    define.string("weights", None, words)
    define.integer("num_experts", None, "With --experts: the number of experts.")
    words = "With --experts: the numbers of shared experts, which receive every token. They are left out; "
    define.list("shared", [], f"{words}the others keep their numbers.")
    words = "The name of the array of labels (integers from 0, or names), or an .npy file."
    define.string("labels", "labels", words)
    words = "The name of the array of each token's document, or an .npy file. Labels are permuted over "
    define.string("documents", None, f"{words}documents.")
    words = "The name of the array of each token's span, such as a chat turn, or an .npy file. A span keeps "
    words += "one label when labels are permuted. Without it, consecutive tokens of one label are a span."
    define.string("spans", None, words)
    words = "The name of the array of the labels' names, in the order of their numbers, or an .npy file."
    define.string("label_names", None, words)
    define.string("layer_names", None, "The name of the array of the layers' names, or an .npy file.")
    words = f"The analyses to run, separated by commas: {', '.join(ANALYSES)}; or "
    words += "all, or none. Larger files are sampled: cache reads at most 2,048 tokens, coactivation and "
    words += "consistency 8,192, dependence, repetition and saturation 32,768, the others 67 million choices."
    define.list("analyses", ["all"], words)
    words = "The number of permutations for the chance level; 0 for none."
    define.integer("permutations", NUM_PERMUTATIONS, words)
    define.float("confidence", 0.95, "The confidence level of intervals.")
    define.integer("seed", 0, "The seed of the permutations.")


def main(values: flags.FlagValues) -> None:
    """Read, measure, print and write; raise `OSError` or `ValueError` with one line on a failure."""
    from modtf.routing import EXAMPLE, report_text, write_routing_report
    from modtf.routing.analyses.choices import domains_of
    from modtf.routing.measuring.compare import Run, compare_runs
    from modtf.routing.measuring.summarise import Options
    from modtf.routing.report.compared import check_comparable, comparison_text, write_comparison
    from modtf.routing.report.findings import findings, held
    from modtf.routing.report.sections import FOLDER, analysed_sections, followed_sections, passages_section
    from modtf.routing.report.tables import ranked

    if values.example:
        if values.activations:
            raise ValueError("--example brings its own routing. Leave out --activations, or --example.")
        values["activations"].value, values["out"].value = [str(EXAMPLE)], values.out or EXAMPLE_OUT
    if not values.activations or not values.out:
        raise ValueError(
            "Give --activations=x.npz, a file with the arrays `activations` and `labels`, and --out=DIR, "
            "the folder for the report. Or give --example to see one."
        )
    out = check_writable(values.out, "--out")
    probs = label_probs(values.label_probs)
    check_number("--confidence", values.confidence, 0.5, 0.9999)
    wanted = chosen_analyses(values.analyses[0] if len(values.analyses) == 1 else values.analyses)
    names = run_names(values.activations)
    if text := out_of_order(names):
        print(f"Warning: {text}")
    routings = [read(path, values) for path in values.activations]
    notes = check_comparable(routings, values.activations)
    for text in notes:
        print(f"Warning: {text}")
    runs: list[Run] = []
    saturated: dict[str, Analysed] = {}
    for path, name, routing in zip(values.activations, names, routings, strict=True):
        layers = measured(routing, values, probs)
        print(report_text(layers, routing.names))
        folder = out / name if len(values.activations) > 1 else out
        with replacing(folder, "", FOLDER):
            bar = partial(progress_bar, desc="what they follow", unit="layer")
            more = passages_section(routing, ranked(layers)[0].layer, values.seed)
            more += followed_sections(routing, folder, values.seed, bar)
            against = None if routing is routings[-1] else routings[-1]
            analyses = run_analyses(
                routing, wanted, partial(progress_bar, unit="layer"), against=against,
                permutations=min(values.permutations, FEWEST), confidence=values.confidence, seed=values.seed,
            )  # fmt: skip
            if SATURATION in analyses.found:
                saturated[name] = analyses.found[SATURATION]
            more += analysed_sections(analyses, folder, routing.names)
            file = Path(path).name
            source = held(routing, file), analyses.found, file
            page = write_routing_report(layers, folder, routing.names, more, *source)
        print(f"Wrote {page}\n\n" + "\n".join(findings(layers, routing.names, analyses.found)))
        if len(routings) > 1:
            runs.append(Run(name, routing.layers, layers))
    if runs:
        bar = partial(progress_bar, desc="compared", unit="layer")
        options = Options(probs, confidence=values.confidence, seed=values.seed)
        first = routings[0]
        compared = list(compare_runs(runs, first.labels, first.documents, options, bar, domains_of(first)))
        with replacing(out, "", FOLDER):
            page = write_comparison(runs, compared, out, routings[0].names, saturated, notes)
        print(f"Wrote {page}\n\n{comparison_text(compared, routings[0].names)}")


def read(path: str, values: flags.FlagValues) -> "Routing":
    """Read a file of activations."""
    from modtf.routing import Routing

    for one in values.shared:
        if not one.isdecimal():
            raise ValueError(
                f"--shared={one} is not valid; expected numbers of experts, separated by commas."
            )
    with warnings.catch_warnings(record=True) as notes, as_flags():
        warnings.simplefilter("always")
        routing = Routing.read(
            path, values.array, values.labels, values.documents, values.label_names, values.layer_names,
            values.experts, values.weights, values.num_experts, list(map(int, values.shared)), values.format,
            values.top_k, values.spans, values.num_layers, columns(values.columns), values.logits,
        )  # fmt: skip
    for note in notes:
        print(f"Warning: {path}: {note.message}")
    return routing


def columns(pairs: list[str]) -> dict[str, str]:
    """Return the mapping that --columns=token=step stands for."""
    if wrong := [pair for pair in pairs if not re.fullmatch("[^=]+=[^=]+", pair)]:
        raise ValueError(
            f"--columns={wrong[0]} is not valid; expected pairs NAME=COLUMN, such as token=step."
        )
    return dict(pair.split("=") for pair in pairs)


def measured(
    routing: "Routing", values: flags.FlagValues, probs: str | list[float] | None
) -> "list[LayerMeasures]":
    """Return the measures of every layer."""
    with as_flags():
        layers = routing.measure(
            partial(progress_bar, desc="layers", unit="layer"),
            label_probs=probs,
            permutations=values.permutations,
            confidence=values.confidence,
            seed=values.seed,
        )
    return [replace(layer, warnings=tuple(map(in_flags, layer.warnings))) for layer in layers]


@contextmanager
def as_flags() -> Iterator[None]:
    """Turn advice of errors on arguments into advice on flags."""
    try:
        yield
    except ValueError as error:
        raise ValueError(in_flags(str(error))) from error


def run_names(paths: list[str]) -> list[str]:
    """Return the names of files; if these are not unique, each with its folder's name in front."""
    names = [Path(path).name if Path(path).is_dir() else Path(path).stem for path in paths]
    if len(set(names)) < len(names):
        names = [f"{Path(path).parent.name}_{name}" for path, name in zip(paths, names, strict=True)]
    if len(set(names)) < len(names):
        raise ValueError(
            f"--activations: the files have the names {', '.join(names)}; expected different names. Rename "
            "one."
        )
    return names


def out_of_order(names: list[str]) -> str:
    """Return a warning if the last of the names, such as step1000, does not have the largest number."""
    largest = max(names, key=by_number)
    if len({re.sub(r"\d+", "", name) for name in names}) > 1 or largest == names[-1]:
        return ""
    return (
        f"The last file counts as the last checkpoint, which is {names[-1]}, although {largest} has a larger "
        "number. Give the files in the order of training."
    )


def in_flags(text: str) -> str:
    """Return advice on an argument of `modtf.measure_activations` in terms of this command's flags."""
    for argument, flag in FLAGS.items():
        text = text.replace(argument, flag)
    return text


def label_probs(text: str) -> str | list[float] | None:
    """Return the argument of `modtf.measure_activations` that `--label_probs` stands for."""
    if text in (OBSERVED, UNIFORM):
        return None if text == OBSERVED else text
    try:
        return np.array(text.split(","), float).tolist()
    except ValueError:
        raise ValueError(
            f"--label_probs={text} is not valid; expected {OBSERVED}, {UNIFORM} or one number for each label."
        ) from None


#: the whole command
command = partial(run_command, main, define_flags)
