"""Tensors with a row per token, written and read in a loop, and sums over modules and batch."""

from keras import ops

from modtf.models.kernels.by_device import by_device

LANES = 16  # partial sums over the batch: one or two vector registers


def row(rows, n):
    """Return rows[n], where n may be a traced value: [N, ...] -> [...]."""
    shape = list(ops.shape(rows))
    return ops.slice(rows, [n, *[0] * (len(shape) - 1)], [1, *shape[1:]])[0]


def _inner_row(rows, n):
    *shape, _, batch = ops.shape(rows)
    return ops.slice(rows, [*[0] * len(shape), n, 0], [*shape, 1, batch])[..., 0, :]


@by_device(accelerator=_inner_row)
def product_row(rows, n):
    """Return token n of products of all tokens: [N, ...] -> [...], or [..., N, B] -> [..., B] on an
    accelerator, which computes them at once (`Scan._ahead`)."""
    return row(rows, n)


def part(rows, n, k):
    """Return rows[n][:, k], read by itself: [N, P, K, ...] -> [P, ...]."""
    _, members, _, *rest = ops.shape(rows)
    return ops.slice(rows, [n, 0, k, *[0] * len(rest)], [1, members, 1, *rest])[0, :, 0]


def with_row(rows, n, value):
    """Return `rows` with rows[n] = value. A compiled loop writes it in place."""
    return ops.slice_update(rows, [n, *[0] * (len(rows.shape) - 1)], value[None])


def with_part(parts, k, value):
    """Return `parts` [P, K, ...] with parts[:, k] = value, also written in place."""
    return ops.slice_update(parts, [0, k, *[0] * (len(parts.shape) - 2)], value[:, None])


@by_device(accelerator=lambda parts, values: (parts, ops.stack(values, axis=1)))
def join_parts(parts, values):
    """Join tensors [P, ...] into one, [P, K, ...]. On a CPU they are written in place, one by one.

    Args:
        parts: storage from `ScanLayout.gate_scratch`; the next call reuses it.

    Returns:
        `parts` and the tensor.
    """
    for k, value in enumerate(values):
        parts = with_part(parts, k, value)
    return parts, parts


@by_device(accelerator=lambda scratch, n, terms: (scratch, [ops.sum(term, axis=1) for term in terms]))
def sum_modules(scratch, n, terms):
    """Sum over the modules, each [P, M, h, B] -> [P, h, B].

    A CPU sums by halves, because XLA does not vectorise its own sum over an outer axis. The terms go through
    memory first; otherwise XLA would compute them inside the sum, without vectors. They use row n % 2 of two,
    because XLA does not write a tensor at all that is overwritten as a whole.

    Args:
        scratch: storage from `ScanLayout.scratch`, needed on a CPU unless M = 1: a tensor [2, P, M, h, B] or
            more for every sum.
        n: the iteration.

    Returns:
        `scratch` and the sums.
    """
    if not scratch:
        return scratch, [term[:, 0] for term in terms]
    written = [with_row(rows, n % 2, term) for rows, term in zip(scratch, terms, strict=False)]
    return (*written, *scratch[len(written) :]), [_halves(row(rows, n % 2)) for rows in written]


def _halves(terms):
    """Sum over axis 1 by halves."""
    odd, count = None, terms.shape[1]
    while count > 1:
        if count % 2:
            odd = terms[:, -1:] if odd is None else odd + terms[:, -1:]
        count //= 2
        terms = terms[:, :count] + terms[:, count : 2 * count]
    return ops.squeeze(terms if odd is None else terms + odd, axis=1)


def _batch_sums(terms):
    return ops.sum(terms, axis=-1, keepdims=True)


@by_device(accelerator=_batch_sums)
def lane_sums(terms):
    """Return partial sums over the batch, [..., B] -> [..., 16]. A CPU is slow at sums along the innermost
    axis. An accelerator makes one sum, [..., 1]."""
    batch = terms.shape[-1]
    if batch is None or batch % LANES:
        return _batch_sums(terms)
    return ops.sum(ops.reshape(terms, [*terms.shape[:-1], batch // LANES, LANES]), axis=-2)
