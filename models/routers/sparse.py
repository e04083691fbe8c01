"""Routers that choose: one module, the best k, or, of each module, its tokens.

p is sparse, the computation is not: every module answers every token.
"""

import numpy as np
from keras import ops

from modtf.checks import check_integer, check_number
from modtf.models.kernels.choice import largest
from modtf.models.kernels.noise import uniform_noise
from modtf.models.kernels.sums import softmax
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup, noise_keys, whole_batch


@register_router("top_k")
class TopK(Router):
    """The softmax over the k largest scores, 0 for all other modules (Shazeer, Mirhoseini, Maziarz, Davis,
    Le, Hinton, Dean 2017, "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts Layer",
    without its noise). With k = M it is `modular`. With k = 1, p is 1 and no score has a gradient.

    Args:
        modules: M; R by default.
        k: from 1 to M.
    """

    needs_scores = True
    tunable = ("k=2,3,4,8",)

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, k: int = 2):
        super().__init__(setup, modules=modules)
        self.k = check_integer("k", k, 1)
        if k > self.num_modules:
            raise ValueError(f"k={k} is more than the {self.num_modules} modules.")

    def call(self, rule=None, rule_features=None, scores=None):
        return softmax(ops.where(largest(scores, self.k) > 0, scores, -float("inf")))


@register_router("switch")
class Switch(Router):
    """p is 1 for the module of the largest score; scores learn as if p were their softmax, and uneven use has
    a price (Fedus, Zoph, Shazeer 2022, "Switch Transformers: Scaling to Trillion Parameter Models with Simple
    and Efficient Sparsity").

    The penalty is `strength` * M * sum_m f_m P_m, with f_m the share of a batch's tokens that module m got
    and P_m its mean probability: its gradient is the paper's, its value that with f_m for P_m, which p alone
    shows. Even use costs `strength`, a single module M times that.

    No module has a capacity, and no token is dropped. The paper weighs the chosen answer with its
    probability, and learns from it alone; here p has the sum 1, and the gradient asks all modules' answers
    what they would have changed: it passes straight through the choice (Bengio, Léonard, Courville 2013,
    "Estimating or Propagating Gradients Through Stochastic Neurons for Conditional Computation").

    Args:
        modules: M; R by default.
        strength: of the penalty, from 0 to 1e6; 0.01 in the paper.
    """

    needs_scores = True
    penalty_name = "load_balancing"
    tunable = ("strength=0.0001:1:log",)

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, strength: float = 0.01):
        super().__init__(setup, modules=modules)
        self.strength = check_number("strength", strength, 0.0, 1e6)

    def call(self, rule=None, rule_features=None, scores=None):
        shares = softmax(scores)
        return largest(scores) + (shares - ops.stop_gradient(shares))  # exactly 0 and 1

    def penalty(self, activation):
        used = ops.mean(activation, axis=2)
        return self.strength * self.num_modules * ops.sum(ops.stop_gradient(used) * used, axis=1)


@register_router("gumbel")
class Gumbel(Router):
    """p is 1 for the module whose score plus Gumbel noise is largest, which draws from the softmax of the
    scores; scores learn as if p were the softmax of the noisy scores over a temperature, straight through
    (Jang, Gu, Poole 2017, "Categorical Reparameterization with Gumbel-Softmax"; Maddison, Mnih, Teh 2017,
    "The Concrete Distribution").

    Noise is drawn in training alone, every number from (task, seed, step, token, module), whatever replica
    has the token; in evaluation p is 1 for the largest score.

    Args:
        modules: M, at most 127; R by default.
        temperature: of the gradient, from 0.001 to 1000.
    """

    needs_scores = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, temperature: float = 1.0):
        super().__init__(setup, modules=modules)
        self.temperature = check_number("temperature", temperature, 1e-3, 1e3)
        check_number("modules", self.num_modules, 1, 127)
        self.key = self.keep("key", noise_keys(setup.initial, setup.name), "int32")
        self.step = self.keep("step", np.zeros([self.num_members]), "int32")

    def extra_input(self, rule, training):
        if not training:
            return None
        uniform = uniform_noise(self.key, self.step, self.num_modules, self.token_numbers(ops.shape(rule)[2]))
        return -ops.log(-ops.log(uniform))

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        noisy = scores if extra is None else scores + extra
        shares = softmax(noisy / self.temperature)
        return largest(noisy) + (shares - ops.stop_gradient(shares))  # exactly 0 and 1

    def advance(self, activation):
        self.step.assign(self.step + 1)


@register_router("bias_balanced")
class BiasBalanced(Router):
    """The k modules with the largest share of the softmax plus bias are chosen; the softmax over their
    scores, without the bias, weighs them (Wang, Gao, Zhao, Sun, Dai 2024, "Auxiliary-Loss-Free Load Balancing
    Strategy for Mixture-of-Experts").

    After every training step the bias of a module that fewer tokens chose than the mean rises by `rate`, that
    of one that more chose falls by it. No gradient sees the bias. The paper's gates are sigmoids of the
    affinities, to which it adds the bias; here p has the sum 1, and the bias is added to the softmax. With
    k = 1, p is 1 and no score has a gradient.

    Args:
        modules: M; R by default.
        k: from 1 to M.
        rate: of the bias, from 0 to 1; 0.001 in the paper.
    """

    needs_scores = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, k: int = 2, rate: float = 0.001):
        super().__init__(setup, modules=modules)
        self.k, self.rate = check_integer("k", k, 1), check_number("rate", rate, 0.0, 1.0)
        if k > self.num_modules:
            raise ValueError(f"k={k} is more than the {self.num_modules} modules.")
        self.bias = self.keep("bias", np.zeros([self.num_members, self.num_modules, 1]))

    def extra_input(self, rule, training):
        return ops.convert_to_tensor(self.bias)

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        chosen = largest(softmax(scores) + extra, self.k)
        return softmax(ops.where(chosen > 0, scores, -float("inf")))

    def advance(self, activation):
        load = ops.mean(ops.cast(activation > 0, self.bias.dtype), axis=2, keepdims=True)
        mean = ops.mean(load, axis=1, keepdims=True)
        self.bias.assign(self.bias + self.rate * ops.sign(mean - load))


@register_router("expert_choice")
class ExpertChoice(Router):
    """Every module takes the `capacity` * T / M tokens of the batch in which its share of the softmax is
    largest; a token's p are the shares of the modules that took it, divided by their sum (Zhou, Lei, Liu, Du,
    Huang, Zhao, Dai, Chen, Le, Laudon 2022, "Mixture-of-Experts with Expert Choice Routing").

    So all modules take equally many tokens, in every batch. The paper leaves a token that no module took to
    the residual connection, and does not divide; here p has the sum 1, and such a token keeps the whole
    softmax. p of a token depends on its batch, in evaluation, too: a recurrence refuses it, and `adaptation`
    is sampled.

    Args:
        modules: M; R by default.
        capacity: modules per token on average, above 0, at most M; 2 in the paper.
    """

    needs_scores = True
    sees_batch = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, capacity: float = 2.0):
        super().__init__(setup, modules=modules)
        self.capacity = check_number("capacity", capacity, 1e-3, self.num_modules)

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        shares = softmax(scores)
        of_batch = whole_batch(ops.stop_gradient(shares))
        num_tokens = ops.shape(of_batch)[2]
        taken = ops.cast(ops.cast(num_tokens, "float32") * (self.capacity / self.num_modules), "int32")
        taken = ops.clip(taken, 1, num_tokens)
        order = ops.sort(of_batch, axis=2)
        least = ops.take(order, ops.reshape(num_tokens - taken, [1]), axis=2)
        chosen = ops.cast(shares >= least, shares.dtype)
        nobody = ops.cast(ops.sum(chosen, axis=1, keepdims=True) == 0, shares.dtype)
        kept = shares * (chosen + nobody)
        return kept / ops.sum(kept, axis=1, keepdims=True)
