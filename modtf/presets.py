"""Ready-made protocols: `quick` for a first look, `paper` as published."""

from dataclasses import dataclass, replace

from modtf.cell import Evaluation, Training


@dataclass(frozen=True)
class Preset:
    """What `launch/run.py` does where no flag says otherwise."""

    num_rules: int
    width: int
    tasks: int
    seeds: int
    training: Training
    evaluation: Evaluation


_PAPER_STEPS = {"mlp": 100_000, "mha": 500_000, "rnn": 500_000}
_CLIPNORM = {"mlp": None, "mha": None, "rnn": 1.0}


def paper(arch: str) -> Preset:
    """The published protocol for one cell: 5 tasks x 5 seeds, Adam at 1e-4."""
    training = Training(steps=_PAPER_STEPS[arch], clipnorm=_CLIPNORM[arch], evaluations=50)
    return Preset(num_rules=8, width=128, tasks=5, seeds=5, training=training, evaluation=Evaluation())


# R, width, tasks, seeds, steps, learning rate: chosen so that four variants take minutes on two cores and
# the table still shows their order.
_QUICK = {
    "mlp": (8, 32, 2, 2, 10_000, 3e-4),
    "mha": (2, 32, 1, 2, 2_000, 2e-3),
    "rnn": (2, 32, 1, 2, 800, 3e-3),
}


def quick(arch: str) -> Preset:
    """A first look, not the published protocol: fewer members and steps, a higher learning rate."""
    num_rules, width, tasks, seeds, steps, learning_rate = _QUICK[arch]
    training = replace(paper(arch).training, steps=steps, learning_rate=learning_rate, evaluations=10)
    evaluation = Evaluation(batches=20, tokens=51_200, draws=20, tokens_per_draw=2_560)
    return Preset(num_rules, width, tasks, seeds, training, evaluation)


PRESETS = {"quick": quick, "paper": paper}
