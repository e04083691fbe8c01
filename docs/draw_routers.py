"""Draws the routers of docs/routers.md and the measures judged by them: `python docs/draw_routers.py`.

Reads docs/study/first.zip and docs/study/routers.zip, writes docs/images/routers_*.png and
docs/images/measures_judged.png, and prints the tables of docs/routers.md and docs/measures.md.
"""

from pathlib import Path

import modtf
from modtf.analysis import kind_label, learned_measures
from modtf.analysis.claims import CLAIMS
from modtf.analysis.contents import how_measured
from modtf.analysis.figures.base import png_of
from modtf.analysis.table import table_cells
from modtf.analysis.text import markdown_table
from modtf.analysis.tracking import judged_cells

HERE = Path(__file__).parent
IMAGES = HERE / "images"
RESULTS = [HERE / "study" / "first.zip", HERE / "study" / "routers.zip"]  # the first holds the published four
COMPARED = {"num_rules": 8, "setting": "regression"}
ARCHITECTURES = ("mlp", "mha")


def read() -> modtf.Study:
    """All trained models of both studies."""
    return modtf.Study.read(RESULTS)


def routers(study: modtf.Study, arch: str) -> modtf.Study:
    """The cells of a study in which all routers were run on an architecture."""
    wanted = {"arch": arch, **COMPARED}.items()
    return modtf.Study.read([cell for cell in study.cells if all(cell.cell[k] == v for k, v in wanted)])


def grids(study: modtf.Study) -> list[modtf.Study]:
    """What was run whole."""
    return [routers(study, arch) for arch in ARCHITECTURES]


def compared(study: modtf.Study, arch: str) -> str:
    """Performance and measures of every router, in Markdown."""
    part = routers(study, arch)
    return markdown_table(*table_cells(part.results, part.level))


def agreements(study: modtf.Study) -> str:
    """Do the better specialised of the routers that learn perform better? Rank agreements, in Markdown."""
    rows = []
    for arch in ARCHITECTURES:
        part = routers(study, arch)
        learned = learned_measures(part)["variant"].unique()
        found = list(CLAIMS["specialised_perform_better"].evidence(part.of_variants(learned)))
        found = [evidence for evidence in found if not evidence.beside]
        cells = [f"{e.value:+.2f} ({e.interval[0]:+.2f} to {e.interval[1]:+.2f})" for e in found]
        rows.append([kind_label(*part.kinds[0]), len(learned), *cells])
    names = [evidence.name.replace("_", " ") for evidence in found]
    return markdown_table(["kind", "routers that learn", *names], rows)


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """The tables of every page."""
    judged = [markdown_table(*cells) for cells in judged_cells(study.judged_measures).values()]
    above = "\n".join(f"*{line}*  " for line in how_measured(study.cells, study.checkpoint))
    pages = {"routers.md": [*(compared(study, arch) for arch in ARCHITECTURES), agreements(study)]}
    return {
        name: [f"{above}\n\n{table}" for table in tables]
        for name, tables in {**pages, "measures.md": judged}.items()
    }


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Writes the pictures of the pages."""
    pictures = {f"routers_{arch}": routers(study, arch).figure("against_modular") for arch in ARCHITECTURES}
    pictures["measures_judged"] = study.figure("measures_judged")
    paths = []
    for name, (picture,) in pictures.items():
        paths.append(folder / f"{name}.png")
        paths[-1].write_bytes(png_of(picture))
    return paths


if __name__ == "__main__":
    both = read()
    draw(both)
    for page, tables in texts(both).items():
        print(f"{page}\n\n" + "\n\n".join(tables) + "\n")
