"""The common parts of the published families' presets."""

from modtf.tasks.protocol import Evaluation, Preset, Protocol, Training

EVALUATE_EVERY = 5_000  # steps, as published
TAIL = 10  # evaluations in the last tenth, each with a tenth of the final evaluation's data


def published_preset(steps: int, clipnorm: float | None = None, **sizes: int) -> Preset:
    """Return one cell of the paper: 5 tasks x 5 seeds, in the middle of its grid. `sizes` are fields of
    `Evaluation`."""
    training = Training(steps=steps, clipnorm=clipnorm, evaluations=steps // EVALUATE_EVERY, tail=TAIL)
    protocol = Protocol(training, Evaluation(**sizes))  # type: ignore[arg-type]
    return Preset(num_rules=8, width=128, tasks=5, seeds=5, protocol=protocol)


def quick_preset(
    num_rules: int,
    tasks: int,
    seeds: int,
    steps: int,
    learning_rate: float,
    clipnorm: float | None = None,
    width: int = 32,
    **sizes: int,
) -> Preset:
    """Return a preset with fewer members and steps, for a table that still shows the variants' order.

    The learning rate starts higher and falls to 0 on half a cosine; four variants take minutes on two cores.
    There are more tasks than seeds, because intervals are over tasks. `sizes` are fields of `Evaluation`. All
    evaluations together cost at most a tenth of training."""
    training = Training(
        steps=steps,
        learning_rate=learning_rate,
        clipnorm=clipnorm,
        evaluations=10,
        schedule="cosine",
        tail=TAIL,
    )
    evaluation = Evaluation(**{"tokens": 51_200, "draws": 20, "tokens_per_draw": 2_560, **sizes})  # type: ignore[arg-type]
    return Preset(num_rules, width, tasks, seeds, Protocol(training, evaluation))
