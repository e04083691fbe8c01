"""The network of VQA-MNIST and SQOOP: an encoder, intermediate modules in a tree of calls, a classifier."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from modtf.experiments.questions.family import question_of
from modtf.experiments.questions.library import FIND, ROUTED_ENCODER, Bank, Library
from modtf.experiments.questions.networks.vqa_modules import KINDS, Modules
from modtf.experiments.questions.question import CLASSIFIER, ENCODER, MODULE, PLACES
from modtf.models.architectures import register_architecture
from modtf.models.base import ModularModel
from modtf.models.kernels.hard_routing import hard_routing, mixture
from modtf.models.layers import weight_of

GIVEN = "gt_modular"  # the router of variants with fixed, rule-based modules


@register_architecture("vqa")
class VQANetwork(ModularModel):
    """Modules of a library. At a "routed" layer the variant's router weights as many modules as there are
    groups.

    Args:
        library: the library's name, which sets the degrees at encoder, module and classifier (see `Library`).
    """

    has_members_axis, compiled_by_xla = False, False

    def make_layers(self, library: str = ROUTED_ENCODER):
        task = self.population.task
        self.places = frozenset(task.places)
        scales = np.random.standard_normal([task.num_rules, self.width])  # the same for every library
        self.question = question_of(task)
        self.library = Library.of(library, self.question)
        self.in_turn = self.question.in_turn
        if self.in_turn and task.batches == "free":
            self.in_turn = ()
        self.banks: dict[str, list[tuple[Bank, Modules]]] = {place: [] for place in PLACES}
        for place in PLACES:
            for number, bank in enumerate(self.library.banks(place)):
                modules = self._make_router(place, bank) if bank.routed else bank.num_modules
                layer = self._modules(bank, modules, f"{place}_{number}")
                self.banks[place].append((bank, layer))
                if bank.kind == FIND:
                    self._make_scales(scales, bank)
        if not self.routers and self.population.family.variant(self.variant).router != GIVEN:
            raise ValueError(
                f"The variant {self.variant!r} has a router, but library={library!r} has no routed layer. "
                f"Choose a library with one, such as {ROUTED_ENCODER!r}, or variant={GIVEN!r}."
            )

    def _modules(self, bank: Bank, number: int, name: str) -> Modules:
        how: dict[str, Any] = {"bn": self.library.bn, "second": not self.question.roots}
        layer = KINDS[bank.kind](self.initial, number, self.width, name, dtype=self.dtype_policy, **how)
        setattr(self, name, layer)  # an attribute, so that Keras tracks it
        return layer

    def _make_router(self, place: str, bank: Bank) -> int:
        """Make the router of a layer. Return M, which its options may set."""
        num_rules = len(bank.module_of)
        router = self.make_router(num_rules, place=place, modules=bank.num_modules)
        if router.needs_scores:
            width = 2 if place == CLASSIFIER else self.width
            score = Score(self.initial, router.num_modules, width + num_rules, f"scores_{place}")
            setattr(self, score.name, score)
        return router.num_modules

    def _make_scales(self, drawn: np.ndarray, bank: Bank) -> None:
        """Make the scales g, one for every sub-task of a Find."""
        self.scaled = list(bank.module_of)
        self.scales = weight_of(self, drawn[self.scaled].astype(np.float32), "scales")

    def forward(self, inputs, rule):
        calls, roots = {}, bool(self.question.roots)
        leaves = rule[:, :2] if roots else rule
        images = ops.reshape(inputs, [-1, *self.question.shape[-3:]])
        seen, calls[ENCODER] = self._at(ENCODER, leaves, [images], sharing=self.question.sharing)
        seen, calls[MODULE] = self._at(MODULE, leaves, [seen])
        if roots:
            both = ops.reshape(seen, [-1, 2, *seen.shape[1:]])
            seen, last = self._at(MODULE, rule[:, 2:], [both[:, 0], both[:, 1]], -1)
            calls[MODULE] = tuple(
                None if a is None else ops.concatenate([a, b], axis=1)
                for a, b in zip(calls[MODULE], last, strict=True)
            )
        target, calls[CLASSIFIER] = self._at(CLASSIFIER, rule[:, -1:], [seen])
        outputs = {"target": target}
        for place, (p, scores) in calls.items():
            outputs |= {f"activation_{n}": p for n in (place, f"{place}_groups") if n in self.places}
            if scores is not None:
                outputs[f"scores_{place}"] = scores
        return outputs

    def _at(self, place: str, rule, inputs: Sequence[Any], number: int = 0, sharing: int = 1):
        """Return a layer's answers to the calls [B, N], and (p [B, N, M], scores or None).

        The inputs are [G, ...] with G = B x N. If neighbouring calls share an input, it occurs once, and
        G = B x N / sharing. A module that answers all of them then runs once."""
        bank, layer = self.banks[place][number]
        flat = ops.reshape(rule, [-1])
        if bank.kind == FIND:
            rows = self._table(dict(zip(self.scaled, range(len(self.scaled)), strict=True)))
            inputs = [ops.take(ops.cast(self.scales, inputs[0].dtype), ops.take(rows, flat), axis=0), *inputs]
        counted = layer.normalises and layer.num_modules > 1 and not bank.routed
        modules, keep = layer.functions(self.training_now, counted)
        scores = None
        if bank.routed:
            answers = [ops.repeat(module(*inputs), sharing, axis=0) for module in modules]
            score = self._scores(place, answers, rule, bank)
            p, scores = self.route_with_scores(rule, None, score, place)
            mixed = mixture(answers, ops.reshape(p, [-1, len(modules)]))
        else:
            choice = ops.take(self._table(bank.module_of), flat)
            after = sharing if len(modules) == 1 else 1
            inputs = [ops.repeat(x, sharing // after, axis=0) for x in inputs]
            mixed = hard_routing(modules, inputs, choice, self._in_turn(place, bank, number), counted)
            mixed = ops.repeat(mixed, after, axis=0)
            sizes = [other.num_modules for _, other in self.banks[place]]
            before = sum(sizes[:-1]) if number else 0
            p = ops.reshape(ops.one_hot(choice + before, sum(sizes)), [-1, rule.shape[1], sum(sizes)])
        keep()
        return mixed, (p, scores)

    def _in_turn(self, place: str, bank: Bank, number: int) -> list[int]:
        """Return the modules of the calls of one example of every question, if batches have the questions in
        turn."""
        calls = self.question.calls_at(place)
        seen = calls if len(calls) < 3 else calls[2:] if number else calls[:2]
        return [bank.module_of[rule[call]] for rule in self.in_turn for call in seen]

    def _table(self, of_rule: dict[int, int]):
        """Return integers by the family's rules, 0 for a rule without one."""
        return ops.convert_to_tensor(np.array([of_rule.get(r, 0) for r in range(self.num_rules)], np.int32))

    def _scores(self, place: str, answers: Sequence[Any], rule, bank: Bank) -> Callable[[], Any]:
        """Score every module from its pooled answer and the sub-task. An encoder barely depends on the
        sub-task."""

        def scores():
            rows = self._table(dict(zip(bank.module_of, range(len(bank.module_of)), strict=True)))
            asked = ops.one_hot(ops.take(rows, ops.reshape(rule, [-1])), len(bank.module_of))
            pooled = [ops.mean(a, axis=(1, 2)) if len(a.shape) == 4 else a for a in answers]
            features = ops.stack([ops.concatenate([a, ops.cast(asked, a.dtype)], 1) for a in pooled], 1)
            by_module = getattr(self, f"scores_{place}")(features)
            return ops.reshape(by_module, [-1, rule.shape[1], len(answers)])

        return scores

    def forward_flops(self, num_tokens: int | None = None) -> int:
        """Return two operations per multiplication with a weight, for one example."""
        return 2 * self.library.macs(self.width)


class Score(keras.layers.Layer):
    """M dense layers with one output each: features [G, M, F] -> [G, M]."""

    def __init__(self, initial, num_modules: int, width: int, name: str):
        super().__init__(name=name)
        self.both = weight_of(self, initial.uniform(name, [num_modules, width + 1], width)[0], "both")
        self.built = True

    def call(self, features):
        both = ops.cast(self.both, features.dtype)
        return ops.sum(features * both[:, :-1], axis=-1) + both[:, -1]
