"""Trains your router on frozen tasks and compares it with the reference results of the package.

Version modtf-1: regression of the mlp and the rnn, eight rules, five tasks that no study draws, one seed, and
the same steps and learning rates for all. Only your router is trained, in minutes. It is compared in and out
of distribution, by collapse and specialisation, with the published variants, the registered routers, fixed
routing and the cards of other laboratories. Rerun the command to resume.

Examples:
    python launch/scorecard.py --plugin=my_router.py --variant=my_router
    python launch/scorecard.py --variant=top_k --set router.k=2 --smoke
    python launch/scorecard.py --plugin=my_router.py --variant=my_router --compare=theirs.json
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from absl import flags

from modtf.cell import VARIANTS, Cell
from modtf.checks import check_choice
from modtf.experiments.modarch.studies.scorecard import FULL, SMOKE, Frozen
from modtf.families import FAMILIES
from modtf.files import check_writable
from modtf.launch.cli import Definer, run_command
from modtf.launch.set_options import Settings, check_known, settings_given
from modtf.models.own import MODELS
from modtf.models.routers import ROUTERS
from modtf.plugins import load_plugin
from modtf.studies.point import OPTIONS, PARTS, check_cell, share_options

CARD = "scorecard.json"
SMOKE_WORDS = "SMOKE: a few steps only, to test the whole path. These numbers mean nothing."


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    define.string("variant", None, "Your router: the name of a registered router or model; see --plugin.")
    words = (
        "An option of your router, router.NAME=VALUE or model.NAME=VALUE. Repeatable. Everything else is "
        "frozen."
    )
    define.multi_string("set", [], words)
    words = (
        "Train a few steps, in about a minute, to try the whole path. Its cards compare only with each other."
    )
    define.bool("smoke", False, words)
    define.string(
        "out", None, "The folder to write to. The default is runs/VERSION_VARIANT, with the options."
    )
    words = "Other cards (scorecard.json) to compare with. Repeat the flag, or separate them by commas."
    define.multi_string("compare", [], words)


def own_cells(frozen: Frozen, variant: str, settings: Settings) -> list[Cell]:
    """Return the cells of your router; an option goes to the families that have it."""
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
    cells = [frozen.cell(arch, variant, **own[arch, variant]) for arch in frozen.protocols]
    for cell in cells:
        check_cell(cell)
    return cells


def main(values: flags.FlagValues) -> None:
    """Train the unfinished cells, write card, page and pictures, and print how your router compares."""
    frozen = SMOKE if values.smoke else FULL
    if values.variant is None:
        raise ValueError("Give --variant=NAME, a registered router or model; --plugin=FILE registers yours.")
    check_choice("--variant", values.variant, dict.fromkeys([*VARIANTS, *ROUTERS, *MODELS]))
    cells = own_cells(frozen, values.variant, settings_given(values))
    options = [f"{name}-{value}" for name, value in {**cells[0].router, **cells[0].model}.items()]
    out = check_writable(
        values.out or Path("runs", "_".join([frozen.version, values.variant, *options])), "--out"
    )
    from modtf.experiments.modarch.scorecard import card  # pandas takes time

    others = others_given(values.compare).items()
    cards = {whose: card.read_card(path, frozen, whose) for whose, path in others}
    cards[""] = card.reference(frozen)
    models = sum(len(cell.members) for cell in cells)
    print(f"{frozen.version}: {values.variant}, {models} models. Writing to {out}", flush=True)
    cells, refused = train(cells, out, values.plugin)
    cards[card.OURS] = submitted = card.card_of(frozen, cells, out)
    card.write_card(out / CARD, submitted)
    warnings = [SMOKE_WORDS] * values.smoke + [f"{arch} is left out: {why}" for arch, why in refused.items()]
    for whose, one in cards.items():
        if one["modtf"] != submitted["modtf"]:
            warnings.append(
                f"{whose or 'The reference results'}: made by modtf {one['modtf']}, yours by "
                f"{submitted['modtf']}."
            )
    from modtf.analysis.table import tables_of
    from modtf.experiments.modarch.scorecard.page import without_given, write_page  # with figures

    study = card.study_of(frozen, cards)
    page, short = write_page(study, card.name_of(submitted, card.OURS), out, warnings)
    print(f"\n{tables_of(without_given(study).results)}\n")
    print("\n".join([*warnings, *short, f"Wrote {page} and {out / CARD}"]))


def others_given(arguments: Sequence[str]) -> dict[str, Path]:
    """Return the cards to compare with by name: the file's name, or that of its folder for a file `CARD`."""
    paths = [Path(part) for item in arguments for part in item.split(",") if part]
    named = {path.absolute().parent.name if path.name == CARD else path.stem: path for path in paths}
    if len(named) < len(paths):
        raise ValueError(f"--compare={','.join(arguments)}: two cards have the same name. Rename a file.")
    return named


def train(cells: list[Cell], out: Path, plugins: list[str]) -> tuple[list[Cell], dict[str, str]]:
    """Train the unfinished cells; return the cells that can be built, and why others cannot."""
    from modtf.engines.cell import check_builds
    from modtf.engines.local import LocalEngine
    from modtf.engines.run_study import run_study
    from modtf.engines.state import state_of
    from modtf.engines.work import Work

    built, refused = [], dict[str, str]()
    for cell in cells:
        try:
            if state_of(cell, out).name != "finished":
                check_builds(cell)
            built.append(cell)
        except ValueError as error:
            refused[cell.task.arch] = str(error)
    if not built:
        raise ValueError(next(iter(refused.values())))
    places = tuple(load_plugin(plugin) for plugin in plugins)  # absolute, for other processes
    summary = run_study(built, Work(str(out.absolute()), plugins=places, retry_failed=True), LocalEngine())
    if not summary.is_good:
        raise ValueError(summary.stopped or "; ".join(summary.failed.values()))
    return built, refused


#: the whole command
command = partial(run_command, main, define_flags, resumes=True)
