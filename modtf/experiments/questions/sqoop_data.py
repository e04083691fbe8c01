"""The examples of SQOOP. Each is a function of (task, split, number), so no epoch is stored."""

import numpy as np

from modtf.datasets import philox
from modtf.datasets.families.base import RuleData
from modtf.experiments.questions.question import RELATIONS
from modtf.experiments.questions.sqoop_scenes import FIRST, LAST, LAYOUTS, layouts, pairs, placing, symbols
from modtf.tasks.task import SPLITS, Task, random_key

EVALUATED = 12_600  # examples of an evaluation: 10 for each pair of 36 objects, as published
GREEN = np.array([0.0, 1.0, 0.0])


class Scenes(RuleData):
    """A finite set whose answers are yes and no in turn. Pairs come in turn; relations are drawn."""

    members_share_programs = True

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
