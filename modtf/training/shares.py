"""The members of a population split over devices: each trains its share, and they never meet."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import tensorflow as tf

from modtf.models.base import ModularModel
from modtf.training.batches import Batches
from modtf.training.compile import state_of
from modtf.training.steps import compiled_part, training_program


def bounds(num_members: int, num_devices: int) -> list[tuple[int, int]]:
    """The first and the last member + 1 of every share, as even as can be; no more shares than members.

    Example:
        >>> bounds(5, 2)
        [(0, 3), (3, 5)]
    """
    count = min(num_members, num_devices)
    edges = [-(-num_members * n // count) for n in range(count + 1)]
    return list(pairwise(edges))


@dataclass
class Share:
    """A population of some members that stands in for them on a device.

    Args:
        whole: the model of all members, compiled.
        batches: of all members.
        count: steps per program.
        device: where it trains.
        first, last: its members are first ... last - 1.
    """

    whole: ModularModel
    batches: Batches
    count: int
    device: str
    first: int
    last: int

    def __post_init__(self) -> None:
        with tf.device(self.device):
            self.part = compiled_part(self.whole, self.first, self.last)
            self.program = training_program(self.part, self.batches.share(self.first, self.last), self.count)

    def receive(self) -> None:
        """Takes over the members' weights, and what the optimizer keeps of them; its metrics begin anew."""
        for ours, its in zip(state_of(self.whole), state_of(self.part), strict=True):
            its.assign(ours.value if ours.shape == its.shape else ours.value[self.first : self.last])
        for metric in self.part.metrics_variables:
            metric.assign(tf.zeros_like(metric.value))

    def train(self, given: Any) -> None:
        """Takes the steps of one program; `given` is what `batches.read` gave."""
        with tf.device(self.device):
            self.program(self.batches.cut(given, self.first, self.last))


def hand_back(whole: ModularModel, shares: Sequence[Share]) -> None:
    """Puts what the shares have learnt into the whole."""
    for ours, *its in zip(state_of(whole), *(state_of(share.part) for share in shares), strict=True):
        if ours.shape == its[0].shape:
            ours.assign(its[0].value)
        else:
            ours.assign(tf.concat([share.value for share in its], axis=0))
    # each share has the mean loss of its members, whatever it counted
    for ours, *its in zip(whole.metrics, *(share.part.metrics for share in shares), strict=True):
        count = sum(mean.count.value for mean in its)
        members = [(share.last - share.first) / whole.num_members for share in shares]
        means = [part * mean.total.value / mean.count.value for part, mean in zip(members, its, strict=True)]
        ours.total.assign_add(count * sum(means))
        ours.count.assign_add(count)


def shares_function(
    model: ModularModel, batches: Batches, steps: int, per_program: int, devices: Sequence[str]
) -> Callable[[Any], dict[str, Any]]:
    """What `fit` calls with an endless iterator to take `steps` steps, the devices side by side.

    Before it and after it the model of all members holds everything: so callbacks, checkpoints and
    evaluations see one population, on its own device, as if it alone had been trained.

    Args:
        model: of all members, compiled.
        batches: of all members.
        steps: in all; per_program divides it.
        per_program: steps of one program.
        devices: their names, such as "GPU:0".
    """
    parts = bounds(model.num_members, len(devices))
    shares = [
        Share(model, batches, per_program, device, *part)
        for device, part in zip(devices, parts, strict=False)
    ]
    model.optimizer.build(model.trainable_variables)

    @tf.function(autograph=False)
    def function(iterator):
        for share in shares:
            share.receive()

        def execute(n):
            given = batches.read(iterator, per_program)
            for share in shares:  # nothing orders them: they hold different variables
                share.train(given)
            return n + 1

        programs = steps // per_program
        tf.while_loop(lambda n: n < programs, execute, [0], parallel_iterations=1)
        hand_back(model, shares)
        return model.get_metrics_result()

    return function
