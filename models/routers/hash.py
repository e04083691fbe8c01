"""The router `hash`."""

import math

import numpy as np
from keras import ops

from modtf.base.checks import check_integer
from modtf.models.initial import noise_keys
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup

SAMPLE = 4096  # tokens in which the patterns that occur are counted


@register_router("hash")
class Hash(Router):
    """A router with a fixed random module for each token id, equally many ids for each module.

    It is the balanced assignment of Roller, Sukhbaatar, Szlam, Weston 2021, "Hash Layers For Large Sparse
    Models". It learns nothing and does not know the rule. If a family's inputs are numbers and no ids, the id
    of a token is the pattern of the signs of its inputs along random directions.

    Args:
        modules: M; R by default; at most the number of ids.
        directions: n, of F inputs that are numbers, from 1 to 16. There are 2^n ids, of which at most
            2 (C(n-1, 0) + ... + C(n-1, F-1)) occur, 12 of 64 for two inputs and the usual n. Modules get
            equally many of those that occurred among 4,096 normal tokens.
    """

    needs_inputs = True

    def __init__(self, setup: RouterSetup, *, modules: int | None = None, directions: int = 6):
        super().__init__(setup, modules=modules)
        check_integer("directions", directions, 1, 16)
        if setup.token_width is None:
            raise ValueError(
                "the router 'hash' chooses by a token's inputs, and this network's inputs belong to whole "
                "examples. Choose another router."
            )
        width, count = setup.token_width, 2**directions if setup.num_ids is None else setup.num_ids
        occur = 2 * sum(math.comb(directions - 1, i) for i in range(width))
        if self.num_modules > (possible := count if setup.num_ids is not None else min(count, occur)):
            raise ValueError(
                f"the router 'hash' has {self.num_modules} modules for {possible} ids, so some would have no "
                "token. Choose fewer modules, or more directions."
            )
        drawn = [np.random.default_rng(keys) for keys in noise_keys(setup.initial, setup.name)]
        orders = np.stack([rng.permutation(count) for rng in drawn])
        self.directions = None
        if setup.num_ids is None:
            normal = np.stack([rng.normal(size=[directions, width]) for rng in drawn]).astype("float32")
            self.directions = self.keep("directions", normal)
            tokens = np.stack([rng.normal(size=[width, SAMPLE]) for rng in drawn]).astype("float32")
            patterns = np.einsum("pnt,n->pt", normal @ tokens > 0, 2 ** np.arange(directions))
            for order, found in zip(orders, patterns, strict=True):
                unseen = ~np.isin(np.arange(count), found)
                order[:] = np.argsort(np.argsort(order + count * unseen))  # those that occur come first
        one_hot = np.arange(self.num_modules)[:, None] == orders[:, None] % self.num_modules
        self.table = self.keep("table", one_hot.astype("float32"))  # [P, M, ids]

    def extra_input(self, rule, training):
        if self.inputs is None:  # outside of a forward pass
            return ops.ones_like(rule[:, :1]) * self.table[:, :, :1]
        ids = ops.cast(self.inputs, self.compute_dtype)
        if self.directions is not None:
            digits = ops.cast(ops.matmul(self.directions, ids) > 0, ids.dtype)
            powers = 2.0 ** np.arange(digits.shape[1])[None, :, None]
            ids = ops.sum(digits * ops.convert_to_tensor(powers, ids.dtype), axis=1, keepdims=True)
        every = ops.arange(self.table.shape[2], dtype=ids.dtype)[:, None]
        return ops.matmul(self.table, ops.cast(ids == every, ids.dtype))

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        return extra
