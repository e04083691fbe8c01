"""Turns results into figures, tables, one HTML page and verdicts on the paper's claims.

Example:
    python launch/report.py --results=runs/study --out=runs/study_report --claims
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from absl import flags
from tqdm import tqdm

from modtf.launch import report_page as page
from modtf.launch import report_sections as sections
from modtf.launch.cli import check_writable, run_command
from modtf.analysis.figures import FIGURES, Choice, NothingToDraw
from modtf.analysis.figures.save import save
from modtf.results import Bootstrap, Study, find_cells, find_missing, load_history, load_results, summarise
from modtf.analysis.claims import judge_all
from modtf.analysis.claims.text import claim_lines, print_claims
from modtf.results.schema import CHECKPOINTS
from modtf.analysis.study import select
from modtf.task import check_choice

PAGE = "report.html"


def read_study(
    results: Sequence[str],
    protocols: Sequence[str] = (),
    checkpoint: str = "last",
    bootstrap: Bootstrap = Bootstrap(),  # noqa: B008  frozen
    quiet: bool = False,
) -> tuple[Study, pd.DataFrame]:
    """The study in the given folders, and what is missing from it.

    Raises:
        FileNotFoundError, ValueError: if there are no finished results, or they cannot be compared.
    """
    cells = find_cells(results)
    finished = [cell for cell in cells if cell.is_finished]
    if not finished:
        raise ValueError(
            f"None of the {len(cells)} cells in {', '.join(results)} is finished. "
            "Let training end, then try again."
        )
    frame = select(
        load_results(finished, lambda c: tqdm(c, "results", unit="cell", disable=quiet)), protocols
    )
    chosen = [cell for cell in cells if not protocols or cell.protocol in protocols]
    history = load_history(chosen, lambda c: tqdm(c, "histories", unit="cell", disable=quiet))
    missing = find_missing(chosen)
    found = sorted(frame["checkpoint"].unique())
    if checkpoint not in found:
        raise ValueError(f"The results hold no checkpoint {checkpoint!r}, only {', '.join(found)}.")
    frame = frame[frame["checkpoint"] == checkpoint]
    return Study(frame, history, checkpoint, chosen, bootstrap), missing


def write_report(
    study: Study,
    missing: pd.DataFrame,
    out: Path,
    figures: Sequence[str] = (),
    choice: Choice = Choice(),  # noqa: B008  frozen
    quiet: bool = False,
) -> pd.DataFrame:
    """Writes report.html, figures/ and tables/ to `out`; returns the judged claims.

    Raises:
        OSError: if `out` cannot be written.
    """
    for folder in ("figures", "tables"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    tables = out / "tables"
    judged, paired = judge_all(study), sections.paired_table(study)
    written = {"results": study.results, "summary": summarise(study.results, bootstrap=study.bootstrap)}
    written |= {"missing": missing, "claims": judged, "paired_comparisons_by_cell": paired}
    for name, frame in written.items():
        frame.to_csv(tables / f"{name}.csv", index=False)
    drawn, undrawn = [], []
    for name in tqdm(list(figures or FIGURES), "figures", unit="figure", disable=quiet):
        body = ""
        try:
            for picture in FIGURES[name](study, choice):
                png = save(picture, out / "figures", tables)
                inches = float(picture.figure.get_size_inches()[0])
                body += page.picture(png, picture.title, picture.note, inches, picture.name)
        except NothingToDraw as reason:
            undrawn.append((name, str(reason)))
            body += page.paragraph(f"Not drawn: {reason}.", "missing")
        drawn.append(page.Section(page.figure_title(name), body))
    first = [sections.protocol_section(study), sections.missing_section(missing, undrawn)]
    first.append(sections.claims_section(judged, study))
    parts = [*first, *drawn, sections.paired_section(paired), sections.measures_section()]
    (out / PAGE).write_text(page.render("modtf report", parts), encoding="utf-8")
    return judged


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Adds the flags of this command."""
    flags.DEFINE_multi_string(
        "results",
        None,
        "A folder that training wrote; repeat it or separate several by commas.",
        flag_values=values,
    )
    flags.DEFINE_string(
        "out", None, "The folder to write report.html, figures/ and tables/ to.", flag_values=values
    )
    flags.DEFINE_bool("claims", False, "Print the verdict on every claim of the paper.", flag_values=values)
    flags.DEFINE_enum("checkpoint", "last", CHECKPOINTS, "Which weights were evaluated.", flag_values=values)
    flags.DEFINE_list("protocol", [], "Keep cells of these protocols only.", flag_values=values)
    flags.DEFINE_list("figures", [], f"Draw these only, of {', '.join(FIGURES)}.", flag_values=values)
    flags.DEFINE_integer("resamples", 1000, "Of the bootstrap.", lower_bound=1, flag_values=values)
    flags.DEFINE_integer("bootstrap_seed", 0, "Of the bootstrap.", lower_bound=0, flag_values=values)
    for name, words in {
        "data_seed": "Task whose activation matrices are drawn; default the first.",
        "seed": "Seed of the model whose activation matrices are drawn; default the first.",
        "rules": "Number of rules whose activation is drawn over training; default the middle one.",
        "width": "Width whose activation matrices are drawn; default the smallest.",
    }.items():
        flags.DEFINE_integer(name, None, words, flag_values=values)


def main() -> None:
    """Reads, draws, writes and prints.

    Raises:
        OSError, ValueError: in one line, if it cannot.
    """
    given = flags.FLAGS
    folders = [part for item in given.results or [] for part in item.split(",") if part]
    if not folders or not given.out:
        raise ValueError("Give --results=DIR, a folder that training wrote, and --out=DIR, where to write.")
    for name in given.figures:
        check_choice("--figures", name, list(FIGURES))
    out = check_writable(given.out)
    bootstrap = Bootstrap(given.resamples, given.bootstrap_seed)
    study, missing = read_study(folders, given.protocol, given.checkpoint, bootstrap)
    choice = Choice(given.data_seed, given.seed, given.rules, given.width)
    judged = write_report(study, missing, out, given.figures, choice)
    if given.claims:
        print(print_claims(claim_lines(judged, bootstrap.level)))
    print(
        f"{len(missing)} cells are missing from the grid."
        if len(missing)
        else "No cell is missing from the grid."
    )
    print(f"Wrote {out / PAGE}")


if __name__ == "__main__":
    define_flags()
    run_command(main)
