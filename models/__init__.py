"""The models: three architectures crossed with four routers.

Inside a model tensors are feature-major with the batch last: [P, F, T], members, features and tokens
(T = N x B). Modules and heads are then a free reshape of F, and every elementwise loop runs along the
batch, whatever the width of a module. The boundary speaks [B, P, ...] (`models.base`).
"""
