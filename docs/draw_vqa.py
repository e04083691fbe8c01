"""Draws the contact sheet in docs/vqa.md: the first training examples of every question.

python docs/draw_vqa.py
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import modtf
from modtf.families.vqa_questions import QUESTIONS

SHOWN = 8
ANSWERS = ("no", "yes")


def draw(path: Path) -> None:
    """A row of examples for every question, each with what is asked and the answer."""
    figure = Figure(figsize=(1.25 * SHOWN, 6.6), dpi=100, layout="constrained")
    for row, (question, asked) in zip(figure.subplots(len(QUESTIONS), SHOWN), QUESTIONS.items(), strict=True):
        task = modtf.Task("vqa_mnist", question=question)
        features, target = next(iter(modtf.stream(task, 60)))
        chosen = np.linspace(0, 59, SHOWN).astype(int)
        for axes, example in zip(row, chosen, strict=True):
            image, rules = (features[name][example].numpy() for name in ("inputs", "rule"))
            names = [asked.sub_tasks[rule] for rule in rules]
            show(axes, image, f"{' '.join(names[:-1])}\n{names[-1]}? {ANSWERS[int(target[example])]}".strip())
        row[0].set_ylabel(question, weight="bold")
    figure.savefig(path)


def show(axes: Axes, image: np.ndarray, text: str) -> None:
    """One picture, or two side by side."""
    if image.ndim == 4:
        image = np.concatenate([image[0], np.ones([28, 2, 3]), image[1]], axis=1)
    axes.imshow(image.clip(0, 1))
    axes.set_title(text, size=7)
    axes.set(xticks=[], yticks=[])


if __name__ == "__main__":
    draw(Path(__file__).with_name("images") / "vqa_samples.png")
