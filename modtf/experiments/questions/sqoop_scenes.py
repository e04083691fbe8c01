"""The parts of the images of SQOOP: symbols, spots of objects, and pairs of objects."""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from modtf.experiments.questions.sqoop import CANVAS, SYMBOLS
from modtf.tasks.task import SPLITS

TILE = 10  # pixels of an object's side, and the font's size
NEAR = 5  # smallest distance of two objects' centres along both axes
APART = TILE + 1  # ... along at least one of them
FIRST, LAST = TILE // 2 + 1, CANVAS - TILE // 2 - 2  # smallest and largest coordinate of a centre
LAYOUTS = 2**14  # scenes for each answer in a split, before relations and objects are chosen


@cache
def symbols() -> np.ndarray:
    """Draw every symbol in green on black with Pillow's own font: floats [36, TILE, TILE], in [0, 1]."""
    try:
        font = ImageFont.load_default(TILE)
    except (ImportError, OSError, TypeError) as error:  # built without FreeType, or older than 10.1
        raise ValueError(
            f"SQOOP needs the font of Pillow 10.1 or later, built with FreeType: {error}. Install it by "
            "`pip install --upgrade pillow`."
        ) from error
    drawn = []
    for symbol in SYMBOLS:
        left, top, right, bottom = font.getbbox(symbol)
        corner = (TILE - right + left) // 2 - left, (TILE - bottom + top) // 2 - top
        glyph, tile = Image.new("RGBA", (TILE, TILE)), Image.new("RGB", (TILE, TILE))
        ImageDraw.Draw(glyph).text(corner, symbol, font=font, fill="green")
        tile.paste(glyph, (0, 0), glyph)
        drawn.append(np.asarray(tile)[..., 1] / 255)
    return np.array(drawn)


@cache
def placing(side: int) -> np.ndarray:
    """Return the matrices from a tile's rows to those of the image, by the centre's row: [64, side, TILE]."""
    matrices = np.zeros([CANVAS, CANVAS, TILE])
    for centre in range(FIRST, LAST + 1):
        matrices[centre, centre - TILE // 2 : centre + TILE // 2] = np.eye(TILE)
    return matrices.reshape([CANVAS, side, CANVAS // side, TILE]).mean(axis=2)


@cache
def layouts(objects: int, split: str) -> np.ndarray:
    """Return spots for questions whether the first object is left of the second: [no, yes], LAYOUTS,
    objects, (column, row).

    Objects are placed in turn, each uniformly among the spots that are far enough from the earlier ones. The
    answer yes is drawn among such scenes. For no, the second object is drawn left of the first. With five
    objects, the first is then left of the fourth, and the third left of the second: so both objects of the
    question stand where the relation would be true with another one.
    """
    generator = np.random.RandomState(SPLITS.index(split))
    both = []
    for answer in (False, True):
        kept = np.zeros([0, objects, 2], int)
        while len(kept) < LAYOUTS:
            kept = np.concatenate([kept, _place(generator, objects, answer)])
        both.append(kept[:LAYOUTS])
    return np.array(both, np.int32)


def _place(generator: np.random.RandomState, objects: int, answer: bool) -> np.ndarray:
    """Return scenes with the answer [n, objects, 2], dropping those with an object on the wrong side."""
    spots = np.zeros([LAYOUTS, objects, 2], int)
    for number in range(objects):
        pending = np.arange(len(spots))
        while len(pending):
            earlier = spots[pending, :number]
            drawn = generator.randint(FIRST, LAST + 1, [len(pending), 2])
            if number == 1 and not answer:
                drawn[:, 0] = generator.randint(FIRST, earlier[:, 0, 0])
            spots[pending, number] = drawn
            distance = np.abs(drawn[:, None] - earlier)
            bad = (distance < NEAR).any(axis=2) | (distance < APART).all(axis=2)
            pending = pending[np.any(bad, axis=1)]
        x = spots[..., 0]
        if number == 0 and not answer:
            spots = spots[x[:, 0] >= FIRST + NEAR]  # room for the second object
        elif number == 1 and answer:
            spots = spots[x[:, 0] < x[:, 1]]
        elif number > 1 and not answer and number < 4:
            spots = spots[x[:, 2] < x[:, 1] if number == 2 else x[:, 0] < x[:, 3]]
    return spots


def pairs(symbols_used: int, variety: int, data_seed: int) -> np.ndarray:
    """Return all ordered pairs of different objects [n, 2]; the symbols x variety of training come first.

    Every object occurs `variety` times on each side of the training pairs: they join the objects of a random
    circle whose distance is one of `variety` random distances.
    """
    generator = np.random.RandomState(data_seed)
    circle = generator.permutation(symbols_used)
    distances = 1 + generator.permutation(symbols_used - 1)
    listed = [np.stack([circle, np.roll(circle, -distance)], 1) for distance in distances]
    seen, novel = np.concatenate(listed[:variety]), np.concatenate(listed[variety:])
    return np.concatenate([generator.permutation(seen), generator.permutation(novel)]).astype(np.int32)
