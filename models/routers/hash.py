"""The router `hash`."""

import numpy as np
from keras import ops

from modtf.base.checks import check_integer
from modtf.models.initial import noise_keys
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup


@register_router("hash")
class Hash(Router):
    """A router with a fixed random module for each token id, equally many ids for each module.

    It is the balanced assignment of Roller, Sukhbaatar, Szlam, Weston 2021, "Hash Layers For Large Sparse
    Models". It learns nothing and does not know the rule. If a family's inputs are numbers and no ids, the id
    of a token is the pattern of the signs of its inputs along random directions.

    Args:
        modules: M; R by default.
        directions: of inputs that are numbers, from 1 to 16; there are 2^directions ids.
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
        count = 2**directions if setup.num_ids is None else setup.num_ids
        drawn = [np.random.default_rng(keys) for keys in noise_keys(setup.initial, setup.name)]
        modules_of = np.stack([rng.permutation(count) % self.num_modules for rng in drawn])
        one_hot = np.arange(self.num_modules)[:, None] == modules_of[:, None]
        self.table = self.keep("table", one_hot.astype("float32"))  # [P, M, ids]
        self.directions = None
        if setup.num_ids is None:
            normal = np.stack([rng.normal(size=[directions, setup.token_width]) for rng in drawn])
            self.directions = self.keep("directions", normal.astype("float32"))

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
