"""Make the table and the figure of docs/language_family.md: four routers on one corpus.

    modtf run --arch=languages --variant=hash,top_2,switch,gt_modular --set training.steps=4000 \\
        --out=runs/judged
    modtf report --results=runs/judged --out=report --archive=docs/study/languages_four.zip
    python docs/scripts/data.py draw_languages
"""

from functools import partial
from pathlib import Path

from sources import IMAGES, archive, measures_table, write_pngs

import modtf
from modtf.analysis.figures import FIGURES, Choice

read = partial(archive, "languages_four")


def texts(study: modtf.Study) -> dict[str, list[str]]:
    """Return the table of the page."""
    return {"language_family.md": [measures_table(study.results, study.level)]}


def draw(study: modtf.Study, folder: Path = IMAGES) -> list[Path]:
    """Write the picture of the page."""
    [picture] = FIGURES["languages_training"](study, Choice())
    return write_pngs({"languages_training": picture}, folder)
