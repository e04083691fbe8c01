"""Documents as streams: every document is a function of (task, split, seed, step) and its place."""

from typing import Any

import numpy as np

from modtf.datasets.families.base import RuleData
from modtf.datasets.random import choose_rule
from modtf.experiments.languages.family import COUNTED_FROM, SWITCH_PLACES
from modtf.experiments.languages.laws import corpus_of
from modtf.tasks.task import Task


class Documents(RuleData):
    """Words 0 .. N - 1 of documents, int32 [G, N], and the language of each next word, [G, N].

    The target [G, N, V] is the next word, one-hot, in training. In evaluation it is the true law of the next
    word, times a position's weight: 0 before position 16, and N / (N - 16) from there on. The mean loss over
    all positions is then the mean over those that count.
    """

    members_share_programs = True
    runs_on_device = True

    @staticmethod
    def parameters(task: Task) -> dict[str, np.ndarray]:
        """Return tables with a row for each language and word, `r * V + w`."""
        corpus, size = corpus_of(task), task.vocabulary
        tables = {"rows": corpus.rows, "changed": corpus.changed}
        return {
            "law": corpus.rows.reshape(-1, size),
            "start": np.cumsum(corpus.start, axis=1)[:, :-1],
            **{
                name: np.cumsum(table, axis=2)[..., :-1].reshape(-1, size - 1)
                for name, table in tables.items()
            },
        }

    def num_uniforms(self, num_tokens: int) -> int:
        return num_tokens + 1

    def examples(self, index, uniforms, parameters, *, switches=None, changed=False):  # type: ignore[override]
        """Make G documents, as `RuleData.examples` does.

        Args:
            index, uniforms, parameters: see `RuleData`.
            switches: whether documents change their language once; by default as the task says.
            changed: whether half of the words are drawn from other frequencies of the language. The law that
                predictions are compared with stays that of the language.
        """
        ops, size, length = self.ops, self.task.vocabulary, uniforms.rule.shape[1]
        rule = self._languages(uniforms, bool(self.task.switches) if switches is None else switches)
        numbers = uniforms.inputs
        words = [choose_rule(ops, numbers[:, 0], size, ops.gather(parameters["start"], rule[:, 0]))]
        for t in range(length):
            limits = ops.gather(parameters["changed" if changed else "rows"], rule[:, t] * size + words[-1])
            words.append(choose_rule(ops, numbers[:, t + 1], size, limits))
        inputs = ops.stack(words[:-1], axis=1)
        if self.split == "train":
            target = ops.one_hot(ops.stack(words[1:], axis=1), size, dtype="float32")
        else:
            weight = np.where(np.arange(length) < COUNTED_FROM, 0.0, length / max(length - COUNTED_FROM, 1))
            target = ops.gather(parameters["law"], rule * size + inputs)
            target = target * ops.cast(weight, target.dtype)[:, None]
        return inputs, rule, target

    def _languages(self, uniforms: Any, switches: bool) -> Any:
        """Return the language of every next word, int32 [G, N].

        A document's second language is another one, with equal probabilities. Its first word is at a uniform
        place in `SWITCH_PLACES`.
        """
        ops, count, numbers, limits = self.ops, self.num_rules, uniforms.rule, uniforms.limits
        first = choose_rule(ops, numbers[:, 0], count, None if limits is None else limits[:, 0])[:, None]
        if not switches:
            return ops.tile(first, [1, numbers.shape[1]])
        second = (first + 1 + choose_rule(ops, numbers[:, 1:2], count - 1, None)) % count
        begin, end = SWITCH_PLACES
        place = begin + choose_rule(ops, numbers[:, 2:3], end - begin + 1, None)
        next_word = ops.cast(ops.arange(numbers.shape[1]), "int32")[None] + 1
        return ops.where(next_word < place, first, second)
