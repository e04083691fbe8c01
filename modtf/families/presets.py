"""The common parts of the published families' presets."""

from modtf.protocol import Evaluation, Preset, Protocol, Training

EVALUATE_EVERY = 5_000  # steps, as published
TAIL = 10  # evaluations inside the last tenth, each of a tenth of the final evaluation's size


def published_preset(steps: int, clipnorm: float | None = None, **sizes: int) -> Preset:
    """One cell of the paper: 5 tasks x 5 seeds, in the middle of its grid; `sizes` are of `Evaluation`."""
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
    """Fewer members and steps, at a learning rate that falls from a higher one to 0 on half a cosine: four
    variants take minutes on two cores and the table still shows their order. More tasks than seeds, since
    intervals are over tasks. `sizes` are of `Evaluation`: together they cost at most a tenth of training."""
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
