"""Searches the best learning rate, and the best options of routers and trainers, for every variant.

A comparison is fair if every variant has the settings that suit it. Each trial trains a population (tasks x
seeds) and is judged by its worst task (the mean over seeds) on validation data, never on test data. Rerun the
command to resume a killed search. Trials are cells, which reports and TensorBoard read like all others.
--best=FOLDER makes launch/run.py and launch/sweep.py use the settings found.

Examples:
    python launch/tune.py --arch=mlp --variant=monolithic,modular
    python launch/tune.py --arch=mlp --variant=top_k --oracle=bayesian --trials=30
    python launch/tune.py --arch=rnn --space learning_rate=1e-4,1e-3 --space router.temperature=0.5:2
    python launch/tune.py --arch=corruptions --variant=contrastive --space trainer.strength=0.01,0.1
    python launch/tune.py --study=my_study.py --oracle=bayesian --trials=8
    python launch/run.py --arch=mlp --variant=monolithic,modular --best=runs/tuning

The trials of a grid and of a random search are cells like those of a study: the engine that the flags name
runs several at once, or a part of them with --shard=i/n. Bayesian optimisation and Hyperband come from
KerasTuner and choose one trial after the other.
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from absl import flags

from modtf.base.checks import check_integer
from modtf.base.files import check_writable
from modtf.base.words import command_line, tensorboard_line
from modtf.launch import run, sweep
from modtf.launch.cells import (
    cells_given,
    define_cell_flags,
    define_kind_flags,
    define_study,
    warn_without_effect,
)
from modtf.launch.cli import Definer, define_plugin, run_command
from modtf.launch.set_options import define_settings, says_learning_rate
from modtf.launch.sweep import define_engines, engine_of
from modtf.studies.grid import shard_of
from modtf.tasks.cell import Cell
from modtf.tuning import LISTS, ORACLES

if TYPE_CHECKING:
    from modtf.engines import Engine
    from modtf.tuning import Search


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    define_study(values)
    define_kind_flags(values)
    words = "The values to try, PATH=VALUES: learning_rate=1e-5:1e-2:log (between two bounds; the default), "
    words += "router.temperature=0.5,1,2 (a list), model.NAME=... for the network's options. Repeatable. A "
    words += "router's option applies to the variants that have it. Options that a router declares as "
    define.multi_string("space", [], f"{words}tunable are tuned anyway, unless --set fixes it.")
    words = "How trials are chosen. The word is KerasTuner's; it does not mean the variant gt_modular."
    define.enum("oracle", "grid", list(ORACLES), words)
    words = "The largest number of trials per variant. The default is 10 for random and bayesian, otherwise "
    define.integer("trials", None, f"{words}as many as they need.")
    words = "grid: the number of values in a range. Without --trials, a trial half a step below the best "
    define.integer("points", 5, f"{words}learning rate follows.")
    words = "The folder to write to. The default is runs/tuning. Several searches may share a folder."
    define_cell_flags(values, words)
    define_engines(values)
    define.integer("oracle_seed", 1, "The seed of random choices, at least 1.")
    define_settings(values)


def main(values: flags.FlagValues) -> None:
    """Run the searches and print their trials; exit with status 1 if a trial failed."""
    _, cells, plugins = cells_given(values)
    out = Path(values.out or Path("runs", "tuning"))
    searches = searches_of(cells, out, values)
    engine = engine_of(cells, out, values)
    for search in searches:
        tuned = "; ".join(f"{path}={axis}" for path, axis in search.space.items())
        print(f"{search.base.label}: {search.oracle}, {tuned}. Writing to {search.folder(out)}", flush=True)
    with closing(engine):
        run_trials(searches, out, plugins, engine, values)
    print_trials(searches, out, values)


def searches_of(cells: Sequence[Cell], out: Path, values: flags.FlagValues) -> "list[Search]":
    """Return one search per cell; raise `ValueError` on flags that contradict each other."""
    points = check_integer("--points", values.points, 2)
    seed = check_integer("--oracle_seed", values.oracle_seed, 1)
    if values.trials is not None:
        check_integer("--trials", values.trials, 1)
    if values.shard is not None and values.oracle not in LISTS:
        raise ValueError(
            f"--shard applies to {' and '.join(LISTS)} only, because {values.oracle} runs one trial at a "
            "time. Leave it out."
        )
    if values["points"].present and values.oracle != "grid":
        raise ValueError(
            f"--points applies to grid only, because {values.oracle} draws from the whole range. Leave it "
            "out, or give --trials."
        )
    check_writable(out, "--out")
    from modtf.tuning.search import axes_given, search_of, space_of

    chosen, fixed = axes_given(values.space, cells), says_learning_rate(values)
    if fixed and "learning_rate" in chosen:
        raise ValueError(
            "--space learning_rate and a fixed learning rate cannot both be given. Leave one out."
        )
    searches = [search_of(cell, space_of(cell, chosen, fixed), values.oracle, points, seed) for cell in cells]
    ends = [search.cell_of({path: axis.ends[end] for path, axis in search.space.items()})
            for search in searches for end in (0, -1)]  # fmt: skip
    warn_without_effect(ends, values)
    return searches


def run_trials(
    searches: "Sequence[Search]",
    out: Path,
    plugins: Sequence[str],
    engine: "Engine",
    values: flags.FlagValues,
) -> None:
    """Run the unfinished trials: lists of them as a study, others one after the other."""
    from modtf.engines.run_study import run_study
    from modtf.tuning.search import begin_lists
    from modtf.tuning.trials import add_half_steps

    def run(cells: Sequence[Cell]) -> Mapping[str, str]:
        return run_study(cells, out, engine, plugins=plugins, retry_failed=values.retry_failed).failed

    limit = ORACLES[values.oracle] if values.trials is None else values.trials
    if values.oracle in LISTS:
        listed = begin_lists(searches, out, limit)
        run(listed if values.shard is None else shard_of(listed, values.shard))
        if values.trials is None and (half := add_half_steps(searches, out)):
            run(half)
        return
    from modtf.tuning.oracles import run_search  # KerasTuner takes time

    for search in searches:
        run_search(search, out, run, limit, values.retry_failed)


def print_trials(searches: "Sequence[Search]", out: Path, values: flags.FlagValues) -> None:
    """Print the trials of every search, and how to use the result; raise `ValueError` if one failed."""
    from modtf.tuning.trials import best_trial, trials_note, trials_of, trials_table

    trials = [trials_of(search, out) for search in searches]
    for search, some in zip(searches, trials, strict=True):
        print(f"\n{search.base.label}\n{trials_table(search, out)}\n\n{trials_note(search)}\n")
        if (best := best_trial(some)) and (note := search.edge_note(best.values)):
            print(f"The best trial has its {note}.\n")
    if all(map(best_trial, trials)):
        print(f"Use it: {_use(values, out)}")
    print(f"Look inside: {tensorboard_line(out)}")
    if failed := sum(trial.status == "failed" for some in trials for trial in some):
        raise ValueError(
            f"{failed} trial(s) failed. Their folders hold error.json; --retry_failed runs them again."
        )


def _use(values: flags.FlagValues, out: Path) -> str:
    """Return the command that trains the variants with the settings found, with the flags that it knows."""
    known, trains = flags.FlagValues(), sweep if values.study else run
    trains.define_flags(known)
    define_plugin(known)
    names = [name for name in values if name in known and name != "out" and values[name].present]
    lines = [line for name in names for line in values[name].serialize().splitlines()]
    return command_line(trains.__name__.rpartition(".")[2], *lines, best=out)


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
