"""The examples of SQOOP. Each is a function of (task, split, number), so no epoch is stored."""

from functools import cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from modtf.datasets import philox
from modtf.datasets.families.base import RuleData
from modtf.experiments.questions.question import RELATIONS
from modtf.experiments.questions.sqoop import CANVAS, SYMBOLS
from modtf.tasks.task import SPLITS, Task, random_key

TILE = 10  # pixels of an object's side, and the font's size
NEAR = 5  # smallest distance of two objects' centres along both axes
APART = TILE + 1  # ... along at least one of them
FIRST, LAST = TILE // 2 + 1, CANVAS - TILE // 2 - 2  # smallest and largest coordinate of a centre
LAYOUTS = 2**14  # scenes for each answer in a split, before relations and objects are chosen
EVALUATED = 12_600  # examples of an evaluation: 10 for each pair of 36 objects, as published
GREEN = np.array([0.0, 1.0, 0.0])


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


class Scenes(RuleData):
    """A finite set whose answers are yes and no in turn. Pairs come in turn; relations are drawn."""

    members_share_programs = True
    draws_rules = False

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        keys = np.stack([philox.words(random_key(task, 0, "scenes", split)) for split in SPLITS])
        return {"pairs": pairs(task.symbols, task.variety, task.data_seed), "keys": keys}

    def num_examples(self, split: str) -> int:
        return int(self.task.examples) if split == "train" else EVALUATED

    def bank(self) -> dict[str, np.ndarray]:
        spots = layouts(self.task.objects, self.split)
        return {"layouts": spots, "symbols": symbols(), "placing": placing(self.task.side)}

    def num_uniforms(self, num_tokens: int) -> int:
        return 1  # an example is the same in every epoch

    def examples(self, index, uniforms, parameters, *, novel=False):  # type: ignore[override]
        ops, used = self.ops, self.task.symbols
        key = parameters["keys"][SPLITS.index(self.split)]
        numbers = philox.uniforms_at(ops, key, index, self.task.objects, uniforms.dtype)
        answer, number = ops.cast(index % 2, "int32"), ops.cast(index // 2, "int32")
        seen = used * self.task.variety
        first, count = (seen, used * (used - 1) - seen) if novel else (0, seen)
        pair = ops.gather(parameters["pairs"], first + number % count)  # [G, 2]
        relation = self._drawn(numbers[:, 0], len(RELATIONS))
        shown = ops.concatenate([pair, self._others(numbers[:, 2:], pair, answer)], 1)
        spots = self._spots(parameters, numbers[:, 1], relation, answer)
        calls = ops.concatenate([pair, used + relation[:, None]], 1)
        return self._images(parameters, shown, spots, numbers.dtype), calls, answer

    def _drawn(self, numbers, count):
        """Return integers below `count`."""
        drawn = self.ops.floor(numbers * self.ops.cast(count, numbers.dtype))
        return self.ops.minimum(self.ops.cast(drawn, "int32"), count - 1)

    def _others(self, numbers, pair, answer):
        """Return further objects [G, objects - 2]: any if the answer is yes, else any but the pair's."""
        ops, used = self.ops, self.task.symbols
        no, low = 1 - answer[:, None], ops.minimum(pair[:, :1], pair[:, 1:])
        others = self._drawn(numbers, used - 2 * no)
        others = others + no * ops.cast(others >= low, "int32")
        return others + no * ops.cast(others >= ops.maximum(pair[:, :1], pair[:, 1:]), "int32")

    def _spots(self, parameters, numbers, relation, answer):
        """Return the objects' spots (row, column), [G, objects, 2], turned from left of to the relation."""
        ops = self.ops
        where = ops.stack([answer, self._drawn(numbers, LAYOUTS)], 1)
        spots = ops.gather_nd(parameters["layouts"], where)
        along, across = spots[..., 0], spots[..., 1]
        mirrored = (relation % 2 == 1)[:, None]  # right of, below
        along = ops.where(mirrored, FIRST + LAST - along, along)
        vertical = (relation >= 2)[:, None]
        return ops.stack([ops.where(vertical, along, across), ops.where(vertical, across, along)], 2)

    def _images(self, parameters, shown, spots, dtype):
        """Return images [G, side, side, 3]. Objects do not overlap."""
        ops, side, tile = self.ops, self.task.side, parameters["symbols"].shape[-1]
        rows, columns = (ops.gather(ops.cast(parameters["placing"], dtype), spots[..., n]) for n in (0, 1))
        tiles = ops.gather(ops.cast(parameters["symbols"], dtype), shown)
        left = ops.transpose(ops.matmul(rows, tiles), [0, 2, 1, 3])  # [G, side, objects, tile]
        right = ops.transpose(columns, [0, 1, 3, 2])  # [G, objects, tile, side]
        width = shown.shape[1] * tile
        images = ops.matmul(ops.reshape(left, [-1, side, width]), ops.reshape(right, [-1, width, side]))
        return images[..., None] * ops.cast(GREEN, dtype)
