"""Trains your router on frozen tasks and compares it with the reference results of the package.

Version modtf-3: regression of the mlp and the rnn, eight rules, five tasks that no study draws, one seed, and
the same steps for all. The learning rate falls to 0 as a cosine; validation on three other tasks chooses its
start for every row. Only your router is trained, in minutes. It is compared in and out of distribution, by
collapse and specialisation, with the published variants, the registered routers, fixed routing and the cards
of other laboratories. Rerun the command to resume.

Examples:
    python launch/scorecard.py --plugin=my_router.py --variant=my_router
    python launch/scorecard.py --variant=top_k --set router.k=2 --smoke
    python launch/scorecard.py --plugin=my_router.py --variant=my_router --compare=theirs.json
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from absl import flags

from modtf.base.checks import check_choice
from modtf.base.files import check_writable
from modtf.experiments.languages import scorecard as languages
from modtf.experiments.modarch.studies import scorecard as rules
from modtf.experiments.modarch.studies.scorecard import Frozen, best_rate
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import Settings, check_known, settings_given
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.studies.grid import OPTIONS, PARTS, check_cell, share_options
from modtf.tasks.cell import VARIANTS, Cell
from modtf.tasks.families import FAMILIES

CARD = "scorecard.json"
#: the full version of each kind of tasks, and that of --smoke
VERSIONS = {"rules": (rules.FULL, rules.SMOKE), "languages": (languages.FULL, languages.SMOKE)}
Trials = Mapping[str, Mapping[float, Cell]]  # by family and learning rate
Made = TypeVar("Made")
SMOKE_WORDS = (
    "SMOKE: nothing was trained enough to judge. A few steps test the whole path; numbers mean nothing."
)


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    define.string("variant", None, "Your router: the name of a registered router or model; see --plugin.")
    words = "An option of your router, router.NAME=VALUE or model.NAME=VALUE. Repeatable. Everything else is "
    define.multi_string("set", [], f"{words}frozen.")
    words = "rules: modules on tasks whose rules are known. languages: the experts of a small language "
    words += "model, on six corpora whose languages are known; about ten minutes."
    define.enum("tasks", "rules", list(VERSIONS), words)
    words = "Train a few steps, in about two minutes, to try the whole path. Its cards compare only with "
    define.bool("smoke", False, f"{words}each other.")
    words = "The folder to write to. The default is runs/VERSION_VARIANT, with the options."
    define.string("out", None, words)
    words = "Other cards (scorecard.json) to compare with. Repeat the flag, or separate them by commas."
    define.multi_string("compare", [], words)


def own_trials(frozen: Frozen, variant: str, settings: Settings) -> Trials:
    """Return the trials of your router by family and learning rate.

    An option goes to the families that have it."""
    for name in ("task", *PARTS):
        if settings[name]:
            raise ValueError(
                f"--set {name}.{next(iter(settings[name]))}: {frozen.version} fixes this option for all "
                "routers. Leave it out."
            )
    asked = {name: {option: values[0] for option, values in settings[name].items()} for name in OPTIONS}
    own, known = share_options(asked, [(FAMILIES[arch], variant) for arch in frozen.protocols])
    for name in OPTIONS:
        check_known(name, asked[name], known[name], repr(variant))
    trials = {arch: frozen.trials(arch, variant, **own[arch, variant]) for arch in frozen.protocols}
    for cell in cells_of(trials):
        check_cell(cell)
    return trials


def cells_of(trials: Trials) -> list[Cell]:
    """Return the trials of all families."""
    return [cell for of_arch in trials.values() for cell in of_arch.values()]


def usual_folder(frozen: Frozen, variant: str, trials: Trials) -> Path:
    """Return the folder of a card that --out does not name; it has the options of all families."""
    parts = [part for cell in cells_of(trials) for part in (cell.router, cell.model, cell.trainer)]
    options = {name: value for part in parts for name, value in part.items()}
    return Path("runs", "_".join([frozen.version, variant, *(f"{n}-{v}" for n, v in options.items())]))


def main(values: flags.FlagValues) -> None:
    """Train the unfinished cells, write card, page and pictures, and print how your router compares."""
    frozen = VERSIONS[values.tasks][values.smoke]
    if values.variant is None:
        raise ValueError("Give --variant=NAME, a registered router or model; --plugin=FILE registers yours.")
    check_choice("--variant", values.variant, dict.fromkeys([*VARIANTS, *ROUTERS, *MODELS]))
    trials = own_trials(frozen, values.variant, settings_given(values))
    out = check_writable(values.out or usual_folder(frozen, values.variant, trials), "--out")
    from modtf.experiments.modarch.scorecard import card  # pandas takes time
    from modtf.experiments.modarch.scorecard.card import rates_in_short, rates_table

    others = others_given(values.compare).items()
    cards = {owner: card.read_card(path, frozen, owner) for owner, path in others}
    cards[""] = card.reference(frozen)
    print(f"{frozen.version}: {values.variant}. Writing to {out}", flush=True)
    trials, refused = buildable(trials, out)
    train("To choose learning rates", cells_of(trials), out, values.plugin)
    search, diverged = found(frozen, trials, out)
    refused |= diverged
    cells = [frozen.final(trials[line["arch"]], line) for line in search]
    train("On the reported tasks", cells, out, values.plugin)
    cards[card.OURS] = submitted = card.card_of(frozen, cells, search, out)
    card.write_card(out / CARD, submitted)
    warnings = [f"{arch} is left out: {why}" for arch, why in refused.items()]
    warnings += [
        f"{owner or 'The reference results'}: made by modtf {one['modtf']}, yours by {submitted['modtf']}."
        for owner, one in cards.items()
        if one["modtf"] != submitted["modtf"]
    ]
    from modtf.analysis.table import tables_of
    from modtf.experiments.modarch.scorecard.compare import routing_words
    from modtf.experiments.modarch.scorecard.page import without_given, write_page  # with figures

    study = card.study_of(frozen, cards)
    rates = {arch: rates_table(cards, arch, frozen) for arch in frozen.protocols}
    smoke = [SMOKE_WORDS] * values.smoke
    name = card.name_of(submitted, card.OURS)
    describe = languages.describe if values.tasks == "languages" else routing_words
    page, verdict, short = write_page(study, name, rates, out, describe, warnings, smoke)
    print(f"\n{tables_of(without_given(study).results)}\n")
    wrote = f"Wrote {page} and {out / CARD}\n"
    print("\n".join([*warnings, *rates_in_short(submitted, frozen), *short, wrote, *verdict]))


def others_given(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the cards to compare with by name: the file's name, or that of its folder for a file `CARD`."""
    paths = [Path(part) for item in arguments for part in item.split(",") if part]
    named = {path.absolute().parent.name if path.name == CARD else path.stem: path for path in paths}
    if len(named) < len(paths):
        raise ValueError(f"--compare={','.join(arguments)}: two cards have the same name. Rename a file.")
    return named


def buildable(trials: Trials, out: Path) -> tuple[Trials, dict[str, str]]:
    """Return the families whose cells can be built, and why others cannot; `ValueError` if none can."""
    from modtf.engines.cell import check_builds
    from modtf.engines.state import state_of

    def checked(of_arch: Mapping[float, Cell]) -> Mapping[float, Cell]:
        cell = next(iter(of_arch.values()))
        if state_of(cell, out).name != "finished":
            check_builds(cell)
        return of_arch

    return by_family(trials, checked)


def found(frozen: Frozen, trials: Trials, out: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the search of every family, and why others have no rate; `ValueError` if none has one."""
    from modtf.experiments.modarch.scorecard.card import search_of

    def checked(of_arch: Mapping[float, Cell]) -> dict[str, Any]:
        line = search_of(frozen, of_arch, out)
        best_rate(line)
        return line

    search, refused = by_family(trials, checked)
    return list(search.values()), refused


def by_family(
    trials: Trials, make: Callable[[Mapping[float, Cell]], Made]
) -> tuple[dict[str, Made], dict[str, str]]:
    """Return what `make` returns for each family, and why it refuses others. If it refuses all, raise
    `ValueError`."""
    made, refused = dict[str, Made](), dict[str, str]()
    for arch, of_arch in trials.items():
        try:
            made[arch] = make(of_arch)
        except ValueError as error:
            refused[arch] = str(error)
    if not made:
        raise ValueError(next(iter(refused.values())))
    return made, refused


def train(what: str, cells: list[Cell], out: Path, plugins: list[str]) -> None:
    """Train the unfinished cells."""
    from modtf.engines.local import LocalEngine
    from modtf.engines.run_study import run_study

    print(f"{what}: {sum(len(cell.members) for cell in cells)} models", flush=True)
    with closing(LocalEngine()) as engine:
        failed = run_study(cells, out, engine, plugins=plugins, retry_failed=True).failed
    if failed:
        raise ValueError("; ".join(failed.values()))


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
