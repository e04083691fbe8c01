"""A batch is a function of (task, split, seed, step), and of nothing else; a wrong argument is one line."""

import numpy as np
import pytest

from modtf import Population, Task, stream
from modtf.datasets import host_ops
from modtf.datasets.plan import StreamPlan
from modtf.datasets.streaming import _shared_programs, pipeline


# many steps in a block; one, where tokens are many
@pytest.mark.parametrize(("batch_size", "start"), [(64, 65), (1000, 3)])
def test_resumes_anywhere(draw, any_family, batch_size, start):
    straight = draw(any_family, start + 2, batch_size=batch_size)
    np.testing.assert_equal(straight[start:], draw(any_family, 2, batch_size=batch_size, start_step=start))


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_member_sees_what_it_sees_alone(draw, any_family, split):
    tasks, seeds = [any_family.replace(data_seed=d) for d in (0, 1, 0)], [0, 7, 7]
    options = {"batch_size": 40, "split": split, "start_step": 3}
    together = draw(tasks, 2, seed=seeds, **options)
    alone = [tuple(array[:, 1] for array in batch) for batch in together]
    np.testing.assert_equal(draw(tasks[1], 2, seed=7, **options), alone)


@pytest.mark.parametrize("family", ["corruptions", "sqoop"])
def test_lone_members_share_a_trace_and_not_their_batches(family):
    drawn, traces = [], []
    for data_seed in (0, 1):
        plan = StreamPlan.of(Population.of(Task(family, data_seed=data_seed)), host_ops, 4)
        drawn.append(next(iter(pipeline(plan)(0)))[0]["inputs"].numpy())
        traces.append(_shared_programs[plan.shape].experimental_get_tracing_count())
    assert (drawn[0] != drawn[1]).any()
    assert traces[0] == traces[1]


def test_a_population_is_its_tasks_and_seeds(draw, any_family):
    population = Population.of([any_family, any_family.replace(data_seed=3)], [2, 5])
    [one] = draw(population, 1, batch_size=16)
    [other] = draw(list(population.tasks), 1, batch_size=16, seed=[2, 5])
    np.testing.assert_equal(one, other)
    [again] = draw(population, 1, batch_size=16, seed=[5, 5])  # seeds that are given count
    np.testing.assert_equal([array[:, 1] for array in one], [array[:, 1] for array in again])
    assert not np.array_equal(one[0][:, 0], again[0][:, 0])


MLP, MHA = Task(num_rules=4), Task(arch="mha", num_rules=4)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        (MLP, {"seq_len": 10}, "seq_len=10 has no meaning for arch='mlp'"),
        (MHA, {"seq_len": 1}, "seq_len=1 .* at least 2"),
        (Task(arch="rnn"), {"seq_len": 0}, "seq_len=0 .* at least 1"),
        (MLP, {"scale": float("inf")}, "scale=inf .* finite"),
        (MLP, {"rule_probs": [0.5, 0.5]}, r"shape \(1, 2\); expected \[4\] or \[K, 4\]"),
        (MLP, {"rule_probs": [0.5, 0.6, -0.1, 0.0]}, "numbers of at least 0"),
        (MLP, {"rule_probs": [0.5, 0.5, 0.5, 0.5]}, "sum to 1"),
        (MLP, {"rule_probs": [[0.25] * 4, [0.25] * 3]}, "rule_probs must be .*inhomogeneous"),
        (MLP, {"rule_probs": [0.5, 0.5, 0j, 0.0]}, "rule_probs must be .* the values are complex"),
        (MLP, {"rule_probs": np.ma.masked_array([0.25] * 4, [True] + [False] * 3)}, "the values are masked"),
        (Task("vqa_mnist"), {"rule_probs": [0.25] * 4}, "rule_probs has no meaning for arch='vqa_mnist'"),
        (Task("sqoop"), {"rule_probs": [0.25] * 4}, "rule_probs has no meaning for arch='sqoop'"),
        (MLP, {"seed": [0]}, "is not valid for one task"),
        ([MLP, MLP], {"seed": [0, 1.5]}, "seed=1.5"),
        ([MLP, MHA], {"seed": [0, 1]}, "differ in data_seed only"),
        (
            [Task("vqa_mnist", data_seed=seed) for seed in (0, 1)],
            {},
            r"cannot share a stream: tuples has shape \(81, 4\) for data seed 0, and \(83, 4\) for 1",
        ),
    ],
)
def test_stream_refuses(task, options, message):
    with pytest.raises(ValueError, match=message):
        stream(task, **options)
