"""Every wrong argument of a stream is one clear line."""

import pytest

from modtf import Task, stream

MLP, MHA = Task(num_rules=4), Task(arch="mha", num_rules=4)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (MLP, {"split": "dev"}, "split='dev' is not known; expected one of train, validation, test"),
        (MLP, {"batch_size": 0}, "batch_size=0 .* at least 1"),
        (MLP, {"batch_size": 2.0}, "batch_size=2.0 .* integer"),
        (MLP, {"start_step": -1}, "start_step=-1 .* at least 0"),
        (MLP, {"seq_len": 10}, "seq_len=10 has no meaning for arch='mlp'"),
        (MHA, {"seq_len": 1}, "seq_len=1 .* at least 2"),
        (Task(arch="rnn"), {"seq_len": 0}, "seq_len=0 .* at least 1"),
        (MLP, {"scale": 0.0}, "scale=0.0 .* above 0"),
        (MLP, {"scale": float("nan")}, "scale=nan .* finite"),
        (MLP, {"scale": float("inf")}, "scale=inf .* finite"),
        (MLP, {"rule_probs": [0.5, 0.5]}, r"\[4\] or \[K, 4\], received \(1, 2\)"),
        (MLP, {"rule_probs": [[[0.25] * 4]]}, r"received \(1, 1, 4\)"),
        (MLP, {"rule_probs": [0.5, 0.6, -0.1, 0.0]}, "non-negative"),
        (MLP, {"rule_probs": [0.5, 0.5, 0.5, 0.5]}, "sum to 1"),
        (MLP, {"rule_probs": [float("nan")] * 4}, "non-negative"),
        (MLP, {"rule_probs": [[0.25] * 4, [0.25] * 3]}, "inhomogeneous"),
        (MLP, {"seed": [0]}, "One task was given with seed="),
        (MLP, {"seed": -1}, "seed=-1 .* at least 0"),
        (MLP, {"seed": 0.5}, "seed=0.5 .* integer"),
        ([MLP, MLP], {"seed": 0}, "needs a list of as many seeds"),
        ([MLP, MLP], {"seed": [0]}, "2 and 1"),
        ([MLP, MLP], {"seed": [0, 1.5]}, "seed=1.5"),
        ([], {"seed": []}, "at least one"),
        ([MLP, MHA], {"seed": [0, 1]}, "differ in data_seed alone"),
        ("mlp", {}, "Expected a modtf.Task"),
        (None, {}, "Expected a modtf.Task"),
    ],
)
def test_stream_refuses(task, options, message):
    with pytest.raises(ValueError, match=message):
        stream(task, **options)
