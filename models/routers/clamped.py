"""`clamped`: a routing that is given and stays, from perfect to useless: modules learn under it alone."""

import numpy as np
from keras import ops

from modtf.checks import check_choice, check_integer, check_number
from modtf.models.kernels.noise import threefry, uniform_noise
from modtf.models.routers import register_router
from modtf.models.routers.base import Router, RouterSetup, noise_keys

MATRICES = ("spread", "block", "collapsed")


def clamped_matrix(num_rules: int, matrix: str = "spread", amount: float = 0.0) -> np.ndarray:
    """A [R, R], p(module | rule), as a function of options alone.

    Args:
        num_rules: R, and as many modules; rule r has its share in module r.
        matrix: "spread": the share 1 - amount, the rest even over the other modules. "block": rules in blocks
            of `amount`, each even over as many modules. "collapsed": the same, over the first half of these.
        amount: 0 to 1 of "spread"; else a divisor of R, an even one of "collapsed".

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
            f"amount={amount!r} with matrix={matrix!r}: expected {even} of the {num_rules} rules."
        )
    shares = np.zeros([block, block])
    shares[:, :used] = 1 / used
    return np.kron(np.eye(num_rules // block), shares)


@register_router("clamped")
class Clamped(Router):
    """p is the rule's row of a matrix that its options say, or one module drawn from it for each token: what
    does it cost if modules are trained under this routing?

    Draws are functions of member, token and the rules of the whole batch, in training and evaluation alike:
    batches have rules of their own, whatever their split, so none shares its draws with another.

    Args:
        matrix, amount: see `clamped_matrix`; by default that of `gt_modular`.
        hard: whether one module is drawn for every token; else p is the row itself.
    """

    depends_only_on_rule = True

    def __init__(
        self, setup: RouterSetup, *, matrix: str = "spread", amount: float = 0.0, hard: bool = False
    ):
        super().__init__(setup)
        self.matrix = clamped_matrix(self.num_rules, matrix, amount)
        self.is_drawn = bool(hard) and not np.isin(self.matrix, (0, 1)).all()
        self.depends_only_on_rule = not self.is_drawn  # type: ignore[misc]  # the class says it of most
        if self.is_drawn:
            self.key = self.keep("key", noise_keys(setup.initial, setup.name), "int32")

    def extra_input(self, rule, training):
        if not self.is_drawn:
            return None
        tokens = self.token_numbers(ops.shape(rule)[2])
        place, zero = ops.cast(tokens, "uint32"), ops.zeros_like(ops.cast(tokens, "uint32"))
        word, _ = threefry((zero, zero), (place, zero))
        rules = ops.cast(ops.argmax(rule, axis=1), "int32") + 1
        of_batch = ops.sum(rules * ops.cast(word, "int32"), axis=1)  # modulo 2^32
        return uniform_noise(self.key, of_batch, 1, tokens)

    def call(self, rule=None, rule_features=None, scores=None, extra=None):
        if extra is None:
            return (
                rule if np.array_equal(self.matrix, np.eye(self.num_rules)) else self._rows(self.matrix, rule)
            )
        ends = np.cumsum(self.matrix, axis=1)
        ends[:, -1] = 1.0
        begins = np.pad(ends[:, :-1], ((0, 0), (1, 0)))
        drawn = ops.logical_and(extra >= self._rows(begins, rule), extra < self._rows(ends, rule))
        return ops.cast(drawn, rule.dtype)

    def _rows(self, matrix, rule):
        """The row of each token's rule, [P, M, T]."""
        return ops.matmul(ops.convert_to_tensor(matrix.T, rule.dtype), rule)
