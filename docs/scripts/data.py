"""Write docs/data/*.csv, the tables behind the pages of results, docs/data.md, their list, and the pictures.

python docs/scripts/data.py            # all scripts: some minutes
python docs/scripts/data.py draw_vqa   # the tables and pictures of one script
"""

import csv
import io
import re
import runpy
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

SCRIPTS = Path(__file__).parent
DOCS = SCRIPTS.parent
DATA = DOCS / "data"
PAGE = DOCS / "data.md"
HEAD = """\
# Data

Every number of the pages of results comes from these tables. The first line of a file is its caption.
Intervals are 95% confidence intervals.
"""


class Table(NamedTuple):
    """A table with its caption."""

    caption: str
    rows: list[list[str]]

    def to_csv(self) -> str:
        """Return the CSV file, whose first line is the caption."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.rows)
        return f"# {self.caption}\n{text.getvalue()}"


def tables_of(text: str) -> list[Table]:
    """Return the tables of a text in Markdown; one in a code block has two spaces between its columns."""
    tables, words = [], []
    apart = re.sub(r"^```$|(?<=[^|\n]\n)(?=\|)", "\n", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n", apart):
        lines = [line for line in block.splitlines() if line]
        if lines and all(line.startswith("|") for line in lines):
            cells = [[cell.strip() for cell in line[1:].rstrip("| ").split(" | ")] for line in lines]
            rows = [row for line, row in zip(lines, cells, strict=True) if not re.fullmatch(r"[-:| ]+", line)]
        elif len(lines) > 2 and re.fullmatch(r"-+", lines[1]):
            rows = [re.split(r"\s{2,}", line.strip()) for line in (lines[0], *lines[2:])]
        else:
            words += [" ".join(line.strip("* ") for line in lines)] * bool(lines)
            continue
        notes = [line for line in words[:-1] if line.startswith(("MLP", "RNN", "MHA"))]
        tables.append(Table("; ".join([*words[-1:], *notes]) or ", ".join(filter(None, rows[0])), rows))
        words = []
    return tables


def files_of(script: str, texts: Mapping[str, Iterable[str]]) -> dict[str, Table]:
    """Return the tables of a script by the names of their files."""
    files: dict[str, Table] = {}
    for page, made in texts.items():
        found = [table for text in made for table in tables_of(text)]
        stem = "_".join(dict.fromkeys([Path(page).stem, script.removeprefix("draw_")]))
        files |= {f"{stem}_{number:02}.csv": table for number, table in enumerate(found, 1)}
    return files


def list_of_files() -> str:
    """Return the page that lists all files, with their captions, by the page that they belong to."""
    rows = []
    for path in sorted(DATA.glob("*.csv")):
        caption = path.read_text("utf-8").splitlines()[0].removeprefix("# ")
        rows.append(f"| [{path.stem}](data/{path.name}) | {caption.replace('|', ' ')} |")
    return "\n".join([HEAD, "| file | caption |", "| --- | --- |", *rows, ""])


def main(names: list[str]) -> None:
    """Run the scripts, and write their tables."""
    scripts = [SCRIPTS / f"{name}.py" for name in names] or sorted(SCRIPTS.glob("draw_*.py"))
    for script in scripts:
        if "def texts(" in script.read_text("utf-8"):
            made = runpy.run_path(str(script))
            study = made["read"]()
            for name, table in files_of(script.stem, made["texts"](study)).items():
                (DATA / name).write_text(table.to_csv(), "utf-8")
            made.get("draw", lambda study: None)(study)
    PAGE.write_text(list_of_files(), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
