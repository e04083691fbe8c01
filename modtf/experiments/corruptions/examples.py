"""Example images under corruptions, apart from other figures, because reading images may need TFDS."""

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from modtf.analysis.figures import Choice, NothingToDraw, Picture, Pictures, register_figure
from modtf.analysis.labels import task_of
from modtf.analysis.trained import TrainedModels
from modtf.datasets import base_images
from modtf.experiments.corruptions.conditions import RULES
from modtf.experiments.corruptions.family import severity_of
from modtf.experiments.corruptions.figures import FAMILY, parts_by_kind
from modtf.experiments.corruptions.pixels import apply

SHOWN = 4  # images
#: what is shown of images: an order of corruptions -> its title
EXAMPLES = {
    ("ID",): "no corruption",
    ("CO",): "CO: contrast",
    ("GB",): "GB: blur",
    ("IM",): "IM: impulse noise",
    ("IN",): "IN: inversion",
    ("R90",): "R90: rotation",
    ("SW",): "SW: swirl",
    ("GB", "IN", "SW"): "GB, IN, SW",
}


@register_figure(
    "corruptions_examples",
    FAMILY,
    shows="Images with their class, which is the answer, under the corruption above them.",
)
def examples(study: TrainedModels, choice: Choice) -> Pictures:
    """Draw some images under each corruption, a picture per task type."""
    for name, part in parts_by_kind(study):
        ((arch, setting, options),) = part.kinds
        task = task_of(arch, setting, options, int(part.results["num_rules"].iloc[0]))
        try:
            base = base_images.load(task.dataset)
        except (ImportError, ValueError) as reason:
            raise NothingToDraw(str(reason)) from None
        places = np.linspace(0, len(base.images) - 1, SHOWN).astype(int)
        generator, severity = np.random.default_rng(0), severity_of(task)
        figure = Figure(figsize=(1.2 * len(EXAMPLES), 1.25 * SHOWN + 0.4), dpi=100, layout="constrained")
        figure.suptitle("Which class is it?", size=10, weight="bold")
        grid = figure.subplots(SHOWN, len(EXAMPLES), squeeze=False)
        for column, (order, title) in zip(grid.T, EXAMPLES.items(), strict=True):
            x = base.images[places].astype(np.float64)
            noise = generator.random(x.shape)
            for corruption in order:
                x = apply(np, RULES.index(corruption), x, lambda noise=noise: noise, severity)
            column[0].set_title(title, size=8)
            for axes, image in zip(column, x.astype(np.uint8), strict=True):
                axes.imshow(np.broadcast_to(image, (*image.shape[:2], 3)))
                axes.set(xticks=[], yticks=[])
        answers = [f"class {base.labels[place]}" for place in places]
        for axes, answer in zip(grid[:, 0], answers, strict=True):
            axes.set_ylabel(answer, size=8)
        table = pd.DataFrame(product(answers, EXAMPLES.values()), columns=["answer", "corruption"])
        note = f"Rows: images of {task.dataset} with their class. Columns: corruptions."
        yield Picture(f"corruptions_examples_{name}", "Example images", note, figure, table)
