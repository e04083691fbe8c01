"""A decoder-only transformer whose feed-forward layers are mixtures of experts."""

from functools import partial

import numpy as np
from keras import ops

from modtf.base.checks import check_choice, check_integer
from modtf.experiments.languages.family import LAYERS
from modtf.models.architectures import register_architecture
from modtf.models.base import ModularModel
from modtf.models.initial import InitialWeights
from modtf.models.layers import Dense, MemberLayer, Mixture, flat, weight_of

HEADS = 2
SMALL = 1e-5  # added to variances


class Norm(MemberLayer):
    """Layer normalisation without an offset: [P, d, T] -> [P, d, T]."""

    def __init__(self, initial: InitialWeights, width: int, name: str, dtype=None):
        super().__init__(initial, name, dtype)
        self.scale = weight_of(self, np.ones([self.num_members, width, 1], np.float32), "scale")
        self.mean = np.full([1, 1, width], 1 / width, np.float32)

    def call(self, x):
        # As products: XLA does not vectorise sums over a long axis that is not the last
        mean = ops.convert_to_tensor(self.mean, x.dtype)
        mean = ops.broadcast_to(mean, [x.shape[0], *mean.shape[1:]])
        centred = x - ops.matmul(mean, x)
        return centred * (self.scale * ops.rsqrt(ops.matmul(mean, centred * centred) + SMALL))


def attend(query, key, value):
    """Return causal attention: [P, heads, k, N, B] three times -> [P, heads * k, N * B]."""
    members, heads, k, length, _ = query.shape
    query, value = (ops.transpose(x, [0, 1, 4, 3, 2]) for x in (query, value))  # [P, heads, B, N, k]
    key = ops.transpose(key, [0, 1, 4, 2, 3])
    later = np.triu(np.full([length, length], -1e9), 1)
    scores = ops.matmul(query * (k**-0.5), key) + ops.convert_to_tensor(later, query.dtype)
    weights = ops.exp(scores - ops.stop_gradient(ops.max(scores, axis=-1, keepdims=True)))
    attended = ops.matmul(weights, value) / ops.sum(weights, axis=-1, keepdims=True)
    return ops.reshape(ops.transpose(attended, [0, 1, 4, 3, 2]), [members, heads * k, -1])


class Block(MemberLayer):
    """Pre-norm attention and experts with a residual path around each."""

    def __init__(self, initial, width, modules, hidden, name, dtype=None):
        super().__init__(initial, name, dtype)
        how = {"dtype": dtype}
        self.norm = Norm(initial, width, f"{name}_norm", **how)
        self.attention = Dense(initial, width, 3 * width, f"{name}_attention", use_bias=False, **how)
        self.out = Dense(initial, width, width, f"{name}_out", use_bias=False, **how)
        self.expert_norm = Norm(initial, width, f"{name}_expert_norm", **how)
        self.first = Dense(initial, width, modules * hidden, f"{name}_first", **how)
        self.last = Mixture(initial, modules, hidden, width, f"{name}_last", **how)

    def attended(self, x, tokens):
        """Return x [P, d, T] plus attention, given (N, B)."""
        heads = ops.cast(self.attention(self.norm(x)), self.variable_dtype)
        heads = ops.reshape(heads, [x.shape[0], 3, HEADS, -1, *tokens])
        return x + self.out(attend(heads[:, 0], heads[:, 1], heads[:, 2]))

    def expert(self, x, normed, p):
        """Return x plus the experts' answers to its normed value, mixed by p [P, M, T]."""
        return x + self.last(ops.relu(self.first(normed)), p)


@register_architecture("languages")
class LanguageModel(ModularModel):
    """Two layers of causal attention and routed experts, learned positions.

    All experts are computed, then weighted. The router reads a linear map of the normed token, without bias.
    The language is hidden from every router that does not follow it (`is_told`), and from the network unless
    it is `told`. A document longer than those of training repeats the last position.

    Options:
        hidden: hidden units of an expert; the width by default.
        total: whether the feed-forward layer of a model without experts is as wide as all experts together.
        told: whether the network is told the language of every next word, as a vector added to the word's.
    """

    def make_layers(self, hidden: int | None = None, total: bool = False, told: bool = False) -> None:
        family, task, d = self.population.family, self.population.task, self.width
        if d % HEADS:
            raise ValueError(f"width={d} is not valid; expected a multiple of {HEADS}, the number of heads.")
        if hidden is not None:
            check_integer("hidden", hidden, 1)
        for name, value in (("total", total), ("told", told)):
            check_choice(name, value, (False, True))
        how, initial, words = {"dtype": self.dtype_policy}, self.initial, int(task.vocabulary)
        self.embedding = Dense(initial, words, d, "embedding", use_bias=False, fan_in=1, **how)
        self.positions = Dense(
            initial, family.num_tokens(task), d, "positions", use_bias=False, fan_in=1, **how
        )
        self.language = (
            Dense(initial, self.num_rules, d, "language", use_bias=False, fan_in=1, **how) if told else None
        )
        for place in LAYERS:
            router = self.make_router(self.num_rules, use_bias=False, place=place)
            if router.sees_batch:
                raise ValueError(
                    f"The router {self.variant!r} compares the tokens of a batch, so it would see later "
                    "words of a document. Choose another one for a language model."
                )
            if total and router.num_modules > 1:
                raise ValueError(
                    f"total=True is for a network without experts; {self.variant!r} has {router.num_modules}."
                )
            size = (hidden or d) * (self.num_rules if total else 1)
            block = Block(initial, d, router.num_modules, size, place, **how)
            setattr(self, place, block)
            if router.needs_scores:
                scores = Dense(initial, d, router.num_modules, f"{place}_scores", use_bias=False, **how)
                setattr(self, f"{place}_scores", scores)
        self.norm = Norm(initial, d, "norm", **how)
        self.head = Dense(initial, d, words, "head", dtype=self.variable_dtype)

    def forward(self, inputs, rule):
        tokens, visible = ops.shape(inputs)[2:], flat(rule)
        positions = self.positions.kernel
        last = np.minimum(np.arange(inputs.shape[2]), positions.shape[2] - 1)
        ids = ops.arange(self.embedding.kernel.shape[2], dtype=inputs.dtype)[:, None]
        x = self.embedding(ops.cast(flat(inputs) == ids, inputs.dtype))
        if self.language is not None:
            x = x + self.language(visible)
        positions = ops.cast(ops.take(positions, last, axis=2), x.dtype)[..., None]
        x = ops.reshape(ops.reshape(x, [*x.shape[:2], *tokens]) + positions, [*x.shape[:2], -1])
        p, scores = {}, {}
        for place in LAYERS:
            block, router = getattr(self, place), self.routers[place]
            x = block.attended(x, tokens)
            normed = block.expert_norm(x)
            known = visible if router.is_told else ops.zeros_like(visible)
            p[place], scores[place] = self.route_with_scores(
                known, None, partial(self._scores, place, normed), place
            )
            x = block.expert(x, normed, p[place])
        return self.head(self.norm(x)), p, scores

    def _scores(self, place, normed):
        return getattr(self, f"{place}_scores")(normed)
