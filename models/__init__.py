"""The models: architectures crossed with routers, for one task or a population of them.

Inside a model, tensors are feature-major with the batch last: [P, F, T] for members, features and tokens
(T = N x B). Modules and heads are then a free reshape of F. Every elementwise loop runs along the batch,
whatever the width of a module. Inputs and outputs have the shape [B, P, ...] (`models.base`).

This package exports everything that an architecture or a router outside the tree needs. It imports lazily.
"""

from etils import epy

with epy.lazy_api_imports(globals()):
    from modtf.models.base import ModularModel as ModularModel
    from modtf.models.layers import Dense as Dense
    from modtf.models.layers import Mixture as Mixture
    from modtf.models.layers import TwoLayer as TwoLayer
    from modtf.models.layers import flat as flat
    from modtf.models.routers.base import Router as Router
    from modtf.models.routers.base import RouterSetup as RouterSetup
