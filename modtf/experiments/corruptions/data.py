"""Images under corruptions. Every example is one base image, seen in one or more views."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from modtf.datasets import base_images, philox
from modtf.datasets.families.base import RuleData
from modtf.experiments.corruptions.conditions import DATASETS, LONGEST, RULES
from modtf.experiments.corruptions.family import severity_of
from modtf.experiments.corruptions.pixels import apply
from modtf.tasks.task import Task

BORDER = 4  # pixels by which colour images move in training
NUM_RULES = len(RULES)


class Corruptions(RuleData):
    """Inputs uint8 [G, N, H, W, 3], rules [G, N] and classes [G, N] of N views of each of G images.

    The rule of a view is its corruption. For several corruptions, which a condition sets, it is their order
    as one number (`modtf.experiments.corruptions.conditions.code`), which for one corruption is the same.

    A subclass adds corruptions in `more`: functions of (ops, images [G, H, W, C] in 0..255), numbered after
    the others; `ops` is `modtf.datasets.host_ops`.
    """

    members_share_programs = True
    choices: ClassVar = {"moved": ("no", "each", "all")}
    more: ClassVar[Sequence[Callable[[Any, Any], Any]]] = ()

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        """Return the numbers of the images of each split."""
        base, sizes = base_images.load(task.dataset), DATASETS[task.dataset].sizes
        return base_images.split_indices(base, sizes, task.data_seed)

    def __init__(self, tasks: Sequence[Task]):
        super().__init__(tasks)
        self.base = base_images.load(self.task.dataset)
        self.grey = self.base.images.shape[-1] == 1

    def bank(self) -> dict[str, np.ndarray]:
        return {"images": self.base.images, "labels": self.base.labels}

    def num_examples(self, split: str) -> int | None:
        return self.stacked[split].shape[1]

    def index(self, position: Any, shuffled: Any) -> Any:
        """Return the image plus the number of images times the finished epochs.

        Training leaves out the incomplete last batch of an epoch.
        """
        count = self.stacked[self.split].shape[1]
        epoch_size = count
        if self.split == "train":
            epoch_size = max(1, count // self.batch_size) * self.batch_size
        place, epoch = position % epoch_size, position // epoch_size
        return shuffled(place % count, epoch, count) + count * epoch

    def num_uniforms(self, num_tokens: int) -> int:
        """Return three numbers for every view, which set its crop and whether it is mirrored."""
        return 3 * num_tokens

    def examples(  # type: ignore[override]  # options of its own
        self,
        index: Any,
        uniforms: Any,
        parameters: Any,
        *,
        order: Any = None,
        views: Any = None,
        fresh: bool = False,
        moved: str = "no",
    ) -> tuple[Any, Any, Any]:
        """Make G examples, as `RuleData.examples` does.

        Args:
            index, uniforms, parameters: see `RuleData`.
            order: numbers of the corruptions of all views, [6], ID behind them.
            views: the rule of each view, [N]; by default each is sampled.
            fresh: whether impulse noise changes with every epoch.
            moved: whether images of colour are cropped and mirrored: "no"; "each" view, after it was
                corrupted; or "all" views alike, before.
        """
        ops, (count, num_views) = self.ops, uniforms.rule.shape
        number = self.stacked[self.split].shape[1]
        image, epoch = index % number, index // number
        chosen = ops.gather(parameters[self.split], image)
        x = ops.cast(ops.gather(parameters["images"], chosen), uniforms.dtype)
        moves: Any = ops.reshape(uniforms.inputs, [count, num_views, 3]) if moved != "no" else None
        if moved == "all":
            x = self._moved(x, moves[:, 0])
        rule = self.rules(uniforms)
        if views is not None:
            rule = ops.zeros_like(rule) + ops.cast(views, rule.dtype)
        key = (chosen, epoch if fresh else ops.zeros_like(epoch))
        if order is None:
            flat = ops.reshape(rule, [-1])
            repeated = [ops.repeat(part, num_views, axis=0) for part in (x, *key)]
            x = self._each(repeated[0], flat, repeated[1:], uniforms)
        else:
            powers = NUM_RULES ** np.arange(LONGEST)
            rule = ops.zeros_like(rule) + ops.sum(ops.cast(order, rule.dtype) * powers)
            x = ops.repeat(self._all(x, order, rule[0, 0], key, uniforms), num_views, axis=0)
        if moved == "each":
            x = self._moved(x, ops.reshape(moves, [-1, 3]))
        channels = 3 // x.shape[-1]
        x = ops.tile(ops.cast(x, "uint8"), [1, 1, 1, channels])
        labels = ops.gather(parameters["labels"], chosen)
        target = ops.repeat(labels[:, None], num_views, axis=1)
        return ops.reshape(x, [count, num_views, *x.shape[1:]]), rule, target

    def _each(self, x: Any, rule: Any, key: Any, uniforms: Any) -> Any:
        """Return images, each under the corruption of its own rule."""
        ops = self.ops
        number = NUM_RULES + len(self.more)
        parts = ops.dynamic_partition(x, rule, number)
        places = ops.dynamic_partition(ops.range(x.shape[0]), rule, number)
        noise = partial(self._noise, key, rule, places[RULES.index("IM")], uniforms, x.shape)
        made = [self._apply(number, part, noise) for number, part in enumerate(parts)]
        return ops.reshape(ops.dynamic_stitch(places, made), x.shape)

    def _all(self, x: Any, order: Any, code: Any, key: Any, uniforms: Any) -> Any:
        """Return images under all corruptions, one after the other."""
        ops, shape = self.ops, x.shape
        codes = ops.zeros_like(key[0]) + ops.cast(code, key[0].dtype)
        noise = partial(self._noise, key, codes, ops.range(shape[0]), uniforms, shape)

        def following(place: Any, x: Any) -> tuple[Any, Any]:
            made = [partial(self._apply, number, x, noise) for number in range(NUM_RULES + len(self.more))]
            x = ops.switch_case(ops.cast(order[place], "int32"), made)
            return place + 1, ops.reshape(x, shape)

        return ops.while_loop(lambda place, _: place < LONGEST, following, (ops.zeros([], "int32"), x))[1]

    def _apply(self, number: int, x: Any, noise: Any) -> Any:
        own = number - NUM_RULES
        severity = severity_of(self.task)
        return apply(self.ops, number, x, noise, severity) if own < 0 else self.more[own](self.ops, x)

    def _noise(self, key: Any, code: Any, places: Any, uniforms: Any, shape: Any) -> Any:
        """Return uniform numbers of some images, functions of (split, image, condition, epoch)."""
        ops, (height, width, channels) = self.ops, shape[1:]
        image, epoch = (ops.cast(ops.gather(part, places), "uint32")[:, None] for part in key)
        code = ops.cast(ops.gather(code, places), "uint32")[:, None]
        words = (uniforms.key[0] + code, uniforms.key[1] + epoch)
        numbers = philox.uniforms_at(ops, words, image[:, 0], height * width * channels, uniforms.dtype)
        return ops.reshape(numbers, [-1, height, width, channels])

    def _moved(self, x: Any, uniform: Any) -> Any:
        """Pad with 0, crop, and mirror half of the images; x [G, H, W, C], uniform [G, 3]."""
        ops, (height, width) = self.ops, x.shape[1:3]
        steps = 2 * BORDER + 1
        down, right = (ops.minimum(ops.cast(uniform[:, n] * steps, "int32"), steps - 1) for n in (0, 1))
        x = ops.where((uniform[:, 2] < 0.5)[:, None, None, None], x[:, :, ::-1], x)
        x = ops.pad(x, [[0, 0], [BORDER, BORDER], [BORDER, BORDER], [0, 0]])
        for places in (down[:, None] + ops.range(height), right[:, None] + ops.range(width)):
            x = ops.gather(x, places, axis=1, batch_dims=1)
            x = ops.transpose(x, [0, 2, 1, 3])
        return x
