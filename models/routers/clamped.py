"""The router `clamped`: fixed routing, from perfect to useless. Only the modules learn under it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from keras import ops

from modtf.base.checks import check_choice, check_integer, check_number
from modtf.base.files import regular_file
from modtf.models.initial import noise_keys
from modtf.models.kernels.noise import threefry, uniform_noise
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup, whole_batch
from modtf.tasks.task import Task

MATRICES = ("spread", "block", "collapsed")
LAST_STEP = 2**31 - 1


def clamped_matrix(num_rules: int, matrix: str = "spread", amount: float = 0.0) -> np.ndarray:
    """Return A [R, R], p(module | rule), as a function of options alone.

    Args:
        num_rules: R, also the number of modules; rule r has its share in module r.
        matrix: "spread": the share 1 - amount, and the rest evenly over the other modules. "block": rules in
            blocks of `amount`, each spread evenly over as many modules. "collapsed": the same, over the first
            half of these.
        amount: 0 to 1 for "spread"; otherwise a divisor of R, which must be even for "collapsed".

    Example:
        >>> clamped_matrix(4, "block", 2)[:2]
        array([[0.5, 0.5, 0. , 0. ],
               [0.5, 0.5, 0. , 0. ]])
    """
    check_choice("matrix", matrix, MATRICES)
    check_number("amount", amount, 0.0, float(num_rules))
    if matrix == "spread":
        check_number("amount", amount, 0.0, 1.0)
        own = np.eye(num_rules)
        return (1 - amount) * own + amount / max(1, num_rules - 1) * (1 - own)
    block = check_integer("amount", amount, 1)
    used = block if matrix == "block" else block // 2
    if num_rules % block or used * (1 + (matrix == "collapsed")) != block:
        even = "an even divisor" if matrix == "collapsed" else "a divisor"
        raise ValueError(
            f"amount={amount!r} with matrix={matrix!r} is not valid; expected {even} of the {num_rules} "
            "rules."
        )
    shares = np.zeros([block, block])
    shares[:, :used] = 1 / used
    return np.kron(np.eye(num_rules // block), shares)


def final_matrices(folder: str, members: Sequence[tuple[Task, int]]) -> np.ndarray:
    """Return the last A [P, R, M] of the members with the same data seed and seed, from the folder of a
    finished cell.

    Raises:
        ValueError: if the folder lacks the matrix of a member.
    """
    try:
        with np.load(regular_file(Path(folder, "activation.npz")), allow_pickle=False) as arrays:
            known = zip(arrays["data_seeds"].tolist(), arrays["seeds"].tolist(), strict=True)
            last = dict(zip(known, arrays["last"].astype(np.float64), strict=True))
        matrices = np.stack([last[task.data_seed, seed] for task, seed in members])
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{folder} does not hold a final activation matrix for every member ({error!r}). Choose a "
            "finished cell with the same members."
        ) from error
    return matrices / matrices.sum(axis=-1, keepdims=True)


@register_router("clamped")
class Clamped(Router):
    """A router that takes p from the rule's row of a fixed matrix, or samples one module per token from it.

    It measures the cost of training modules under this routing. Samples are functions of member, token and
    the rules of the whole batch, in training and evaluation alike. Each batch has its own rules, whatever its
    split, so no two batches share their samples.

    Args:
        matrix, amount: see `clamped_matrix`; by default the matrix of `gt_modular`.
        hard: whether one module is sampled for every token; otherwise p is the row itself.
        of: used in place of the matrix: the folder of a finished cell with as many modules. Every member
            reuses the final matrix of the same member there (a paired run).
        from_step, until_step: the first training step with this routing, and the first one without it. Other
            steps have perfect routing. If either option is set, evaluations have perfect routing too.

    Example:
        >>> modtf.build(task, "clamped", router={"of": "runs/mlp_r8-0123abcd"})  # doctest: +SKIP
    """

    depends_only_on_rule = True

    def __init__(
        self,
        setup: RouterSetup,
        *,
        matrix: str = "spread",
        amount: float = 0.0,
        hard: bool = False,
        of: str | None = None,
        from_step: int = 0,
        until_step: int | None = None,
    ):
        super().__init__(setup)
        check_choice("hard", hard, (False, True))
        self.from_step = check_integer("from_step", from_step, 0)
        self.until_step = LAST_STEP
        if until_step is not None:
            self.until_step = check_integer("until_step", until_step, from_step)
        self.is_timed = (from_step, until_step) != (0, None)
        matrices = clamped_matrix(self.num_rules, matrix, amount)
        if of is not None:
            if (matrix, amount) != ("spread", 0.0):
                raise ValueError(
                    f"matrix={matrix!r}, amount={amount!r} and of={of!r} set the routing matrix twice. Give "
                    "either matrix and amount, or of."
                )
            matrices = final_matrices(of, setup.initial.members)
            if matrices.shape[1:] != (self.num_rules, self.num_modules):
                raise ValueError(
                    f"The routing matrix of {of!r} has shape {matrices.shape[1:]}; expected "
                    f"({self.num_rules}, {self.num_rules})."
                )
        # with `of`, members differ: one that alone has nothing to sample must fit the others' program
        self.is_drawn = bool(hard) and not (of is None and np.isin(matrices, (0, 1)).all())
        self.is_perfect = np.array_equal(matrices, np.eye(self.num_rules))
        self.depends_only_on_rule = self.is_timed or not self.is_drawn  # type: ignore[misc]  # in evaluation
        if self.is_timed:
            self.step = self.keep("step", np.zeros([self.num_members]), "int32")
        self.rows = {"matrix": matrices}
        if self.is_drawn:
            self.key = self.keep("key", noise_keys(setup.initial, setup.name), "int32")
            ends = np.cumsum(matrices, axis=-1)
            ends[..., -1] = 1.0
            begins = np.concatenate([np.zeros_like(ends[..., :1]), ends[..., :-1]], axis=-1)
            self.rows = {"begins": begins, "ends": ends}
        if of is not None:  # kept per member, because it is the member's own
            self.rows = {name: self.keep(name, rows) for name, rows in self.rows.items()}

    def extra_input(self, rule, training):
        """Return p itself."""
        if not self.is_timed:
            return self._route(rule)
        if not training:
            return rule
        now = ops.logical_and(self.step >= self.from_step, self.step < self.until_step)
        return ops.where(now[:, None, None], ops.cast(self._route(rule), rule.dtype), rule)

    def advance(self, activation):
        if self.is_timed:
            self.step.assign(self.step + 1)

    def _route(self, rule):
        """Return the rows of the matrix, or samples from them, [P, M, T]."""
        if not self.is_drawn:
            return rule if self.is_perfect else self._row("matrix", rule)
        tokens = self.token_numbers(ops.shape(rule)[2])
        place, zero = ops.cast(tokens, "uint32"), ops.zeros_like(ops.cast(tokens, "uint32"))
        word, _ = threefry((zero, zero), (place, zero))
        rules = ops.cast(ops.argmax(rule, axis=1), "int32") + 1
        of_own = ops.sum(rules * ops.cast(word, "int32"), axis=1)  # modulo 2^32
        of_batch = ops.sum(whole_batch(of_own[:, None, None]), axis=(1, 2))
        noise = ops.cast(uniform_noise(self.key, of_batch, 1, tokens), rule.dtype)
        return ops.logical_and(noise >= self._row("begins", rule), noise < self._row("ends", rule))

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        return extra

    def _row(self, name, rule):
        """Return the row of each token's rule, [P, M, T]."""
        rows = ops.convert_to_tensor(self.rows[name], rule.dtype)
        return ops.matmul(ops.swapaxes(rows, -1, -2), rule)
