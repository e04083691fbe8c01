"""Turns results into figures, tables, one HTML page and verdicts on the paper's claims.

Example:
    python launch/report.py --results=runs/study --out=runs/study_report --claims
"""

if __name__ == "__main__":
    from modtf.launch.main import run_file

    run_file(__file__)

from functools import partial
from pathlib import Path

import pandas as pd
from absl import flags

from modtf.analysis import Study, print_judged
from modtf.analysis.claims.judge import learning_words, print_claims
from modtf.analysis.figures import FIGURES
from modtf.analysis.labels import CHECKPOINT_WORDS, variant_label
from modtf.analysis.report.sections import findings
from modtf.analysis.report.write import FOLDERS, write_report
from modtf.analysis.rows import CHOICES
from modtf.analysis.trained import how_corrected, how_trained
from modtf.base.checks import check_choice
from modtf.base.files import check_file_writable, check_writable
from modtf.base.words import progress_bar
from modtf.engines.state import remove_left
from modtf.launch.cli import Definer, run_command
from modtf.pages.pictures import VECTOR
from modtf.pages.text import plural
from modtf.results.archive import check_archive_name, write_archive


def define_flags(values: flags.FlagValues) -> None:
    """Add the flags of this command."""
    define = Definer(values)
    words = "A folder of results or an archive. Repeat the flag, or separate several by commas."
    define.multi_string("results", None, words)
    define.string("out", None, "The folder for report.html, figures/ and tables/.")
    words = "Write the results, without models, to this small file (.zip), which --results reads. --out is "
    define.string("archive", None, f"{words}not needed.")
    define.bool("claims", False, "Print the verdict on every claim of the paper.")
    words = "Print which measures track specialisation, and which do not."
    define.bool("measures", False, words)
    words = "; ".join(f"{name}: {meant}" for name, meant in CHECKPOINT_WORDS.items())
    words += ". The default is last if learning rates end at 0, else the family's, usually tail."
    define.enum("checkpoint", None, CHOICES, words)
    define.list("protocol", [], "Keep only cells of these protocols.")
    define.list("variant", [], "Keep only these variants, with any options. The default is all.")
    words = "Draw only these figures, and judge claims only if --claims is given: "
    define.list("figures", [], f"{words}{', '.join(FIGURES)}.")
    define.list("vector", [], f"Write figures in these formats, too: {', '.join(VECTOR)}.")
    words = "The task whose activation matrices are drawn. The default is the first."
    define.integer("data_seed", None, words)
    words = "The seed of the model whose activation matrices are drawn. The default is the first."
    define.integer("seed", None, words)
    words = "The number of rules for the figure of activation in training. The default is the middle one."
    define.integer("rules", None, words)
    define.integer("width", None, "The width whose activation matrices are drawn. The default is all.")


def main(values: flags.FlagValues) -> None:
    """Read the results, judge the claims, write the report or the archive, and print the requested texts."""
    folders, out = check_flags(values)
    study = read(folders, values)
    wanted = values.claims or (out and not values.figures)
    judged = study.claims() if wanted else pd.DataFrame()
    written: list[Path | str] = []
    if out:
        choice = {name: values[name].value for name in ("data_seed", "seed", "width")}
        choice["num_rules"] = values.rules
        bar = partial(progress_bar, desc="figures", unit="figure")
        written.append(write_report(study, out, values.figures, bar, judged, values.vector, **choice))
    if values.archive:
        write_archive(study.cells, values.archive)
        written.append(values.archive)
    if values.claims:
        print(print_claims(judged, study.level), *how_trained(study), *learning_words(study), sep="\n")
    for line in how_corrected(study.cells):
        print(line)
    if values.measures:
        print(print_judged(study.judged_measures, study.level))
    missing = len(study.missing)
    print(f"Missing: {plural(missing, 'requested cell')}." if missing else "All requested cells are present.")
    print(f"Wrote {' and '.join(map(str, written))}\n", *findings(study), sep="\n")


def check_flags(values: flags.FlagValues) -> tuple[list[str], Path | None]:
    """Return the folders to read, and the one to write to; raise `ValueError` on invalid flags."""
    folders = [part for item in values.results or [] for part in item.split(",") if part]
    if not folders or not (values.out or values.archive):
        raise ValueError(
            "Give --results=DIR, a folder that training wrote, and --out=DIR, the folder for the report (or "
            "--archive=FILE)."
        )
    for flag, known in (("figures", FIGURES), ("vector", VECTOR)):
        for name in values[flag].value or []:
            check_choice(f"--{flag}", name, list(known))
    if values.archive:
        check_archive_name("--archive", values.archive)
        check_file_writable(values.archive, "--archive")
    for flag in ("figures", "vector", "data_seed", "seed", "rules", "width"):
        if values[flag].present and not values.out:
            raise ValueError(f"--{flag} needs --out=DIR, the folder for the report.")
    if not values.out:
        return folders, None
    out = check_writable(values.out, "--out")
    for folder in FOLDERS:
        check_writable(out / folder, "--out")
    return folders, out


def read(folders: list[str], values: flags.FlagValues) -> Study:
    """Return the results in the folders, restricted to the protocols and variants of the flags."""
    bar = partial(progress_bar, desc="cells", unit="cell")
    study = Study.read(folders, values.checkpoint, values.protocol, progress=bar)
    for place in {cell.path.parent for cell in study.cells}:
        remove_left(place)
    if not values.variant:
        return study
    for name in values.variant:
        check_choice("--variant", name, sorted(study.results["router"].unique()))
    cells = [cell.cell for cell in study.cells if cell.cell["variant"] in values.variant]  # unfinished, too
    return study.part(variant=[variant_label(of["variant"], of["model_options"]) for of in cells])


#: the whole command
command = partial(run_command, main, define_flags)
