"""Protocols: what was published, the quick ones, and how they are changed."""

from contextlib import nullcontext

import pytest
from flag_values import given

from modtf.launch import run
from modtf.launch.run import check_comparable, check_folder
from modtf.results.cells import CellFolder
from modtf.studies.estimate import evaluation_tokens
from modtf.studies.grid import cell_of
from modtf.tasks.cell import Cell
from modtf.tasks.families import FAMILIES, IID, with_free_rules
from modtf.tasks.protocol import PRESETS, Evaluation, Protocol, Training, preset, tail_length
from modtf.tasks.task import Task, science_hash
from modtf.training.arithmetic import BACKWARD, epochs_of, warn_of_few_evaluations

EVERY = [(arch, setting) for arch, family in FAMILIES.items() for setting in family.settings]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize(("arch", "setting"), EVERY)
def test_presets(name, arch, setting):
    task = Task(arch, setting)
    found = preset(name, task)
    training = found.protocol.training
    assert training.steps % training.evaluations == 0
    assert training.clipnorm == Protocol.published(task).training.clipnorm  # one clip rule
    if name == "smoke":
        return
    assert found.protocol == {"paper": Protocol.published, "quick": Protocol.quick}[name](task)
    epochs, every, tail = epochs_of(training)
    assert training.steps % epochs == 0
    assert epochs // every == training.evaluations
    if training.tail:
        assert 10 <= tail == epochs // 10
        sizes = found.protocol.evaluation
        examples = tail * sizes.smaller(10).batches * sizes.batch_size
        assert examples >= 25_600 or (name == "quick" and task.is_sequence and examples >= 640)
    else:
        assert tail == tail_length(training.evaluations) >= 5
    assert found.tasks >= 3 or (name, arch) == ("quick", "languages")  # so that there is an interval to show
    assert task.replace(num_rules=found.num_rules).num_rules >= 2
    assert found.width >= 1


@pytest.mark.parametrize("arch", with_free_rules())
def test_evaluation_costs_at_most_a_tenth_of_a_quick_training(arch):
    task = Task(arch)
    found = preset("quick", task)
    cell = Cell(task, found.width, "modular", ((0, 0),), found.protocol)
    trained = found.protocol.training.steps * cell.step_tokens
    assert evaluation_tokens(cell) / BACKWARD <= trained / 10


@pytest.mark.parametrize(("arch", "setting"), EVERY)
def test_a_smoke_run_is_tiny_and_has_all_that_a_table_shows(arch, setting):
    task = Task(arch, setting)
    found, family = preset("smoke", task), task.family
    training, sizes = found.protocol.training, found.protocol.evaluation
    assert (found.tasks, found.seeds, training.evaluations) == (2, 1, 2)
    assert training.steps * training.batch_size <= 20 * 64 >= sizes.batches * sizes.batch_size * 10
    shown = [family.condition(name) for name in sizes.conditions or ()]
    assert {condition.group or condition.name for condition in shown} == {family.headline}
    if family.headline in family.groups:
        assert len(shown) == sum(condition.group == family.headline for condition in family.conditions)


def test_a_shorter_training_is_evaluated_on_less():
    quick = preset("quick", Task("mlp"))
    short = quick.shortened(1_000)
    assert short.training == Protocol.quick(Task("mlp")).replace(steps=1_000).training
    sizes = (short.evaluation.batches, short.evaluation.tokens, short.evaluation.draws)
    assert sizes == (10, 5_120, 5)
    assert quick.shortened(10_000) == quick.protocol
    assert quick.shortened(20_000).evaluation == quick.protocol.evaluation


@pytest.mark.parametrize(
    ("arch", "steps", "clipnorm"), [("mlp", 100_000, None), ("mha", 500_000, None), ("rnn", 500_000, 1.0)]
)
def test_published_training(arch, steps, clipnorm):
    expected = {"learning_rate": 1e-4, "batch_size": 256, "clipnorm": clipnorm, "evaluations": steps // 5_000}
    expected["tail"] = 10  # ours
    assert Protocol.published(Task(arch)).training == Training(steps=steps, **expected)
    found = preset("paper", Task(arch))
    assert (found.tasks, found.seeds) == (5, 5)


@pytest.mark.parametrize(
    ("variant", "objects", "expected"),
    [
        ("all_all_all_bn", 2, (200_000, 1e-4, 64, None)),
        ("all_sub_all_bn", 2, (50_000, 1e-4, 64, None)),
        ("film", 5, (200_000, 3e-4, 64, None)),
        ("mac", 5, (100_000, 1e-4, 128, 8.0)),
        ("mac", 2, (200_000, 1e-4, 128, 8.0)),
    ],
)
def test_the_published_training_of_sqoop_follows_the_network(variant, objects, expected, tmp_path):
    """The numbers are those of the released scripts and logs."""
    point = {"arch": "sqoop", "objects": objects, "variant": variant, "preset": "paper"}
    cell, other = cell_of(point), cell_of({**point, "variant": "all_all_all"})
    training = cell.protocol.training
    assert (training.steps, training.learning_rate, training.batch_size, training.clipnorm) == expected
    assert Cell(cell.task, cell.width, variant, cell.members).protocol == cell.protocol
    quick = cell_of({**point, "preset": "quick"})
    assert quick.protocol == quick.common_protocol == Protocol.quick(cell.task)
    ways = [CellFolder(tmp_path, one.to_dict()).protocol.partition("@") for one in (cell, other, quick)]
    assert ways[0][0] == ways[1][0] != ways[2][0], "networks as published can be compared"
    assert float(ways[0][2]) == expected[1]
    chosen = cell_of({**point, "training.steps": 7, "training.learning_rate": 0.5})
    assert chosen.common_protocol.training.steps == 7
    assert check_folder(tmp_path, [cell]) == check_folder(tmp_path, [other])


def test_a_value_for_all_networks_stays_comparable_if_it_is_the_published_one_of_one(tmp_path):
    batches = {"arch": "sqoop", "preset": "quick", "training.batch_size": 128}
    cells = [cell_of({**batches, "variant": variant}) for variant in ("mac", "film")]
    assert len({cell.common_protocol for cell in cells}) == 1
    published = [{"arch": "sqoop", "variant": name, "training.precision": "tf32"} for name in ("mac", "film")]
    check_comparable([cell_of(point) for point in published])
    words = "all_all_all_bn, film, mac cannot be compared with all_sub_all_bn: .* published one of some"
    asked = ["--arch=sqoop", "--preset=paper", "--steps=50000", f"--out={tmp_path / 'out'}"]
    with pytest.raises(ValueError, match=words):
        run.main(given(run, *asked))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arch", "setting", "batch_size", "activation_batch_size", "tokens_per_draw"),
    [
        ("mlp", "regression", 1000, 1000, 10_000),
        ("mlp", "classification", 1000, 1000, 10_000),
        ("mha", "regression", 256, 1000, 100_000),
        ("mha", "classification", 1000, 1000, 100_000),
        ("rnn", "regression", 256, 100, 100_000),
        ("rnn", "classification", 256, 100, 100_000),
    ],
)
def test_published_sizes(arch, setting, batch_size, activation_batch_size, tokens_per_draw):
    """100 batches a condition; the matrix from 1,000 batches; 100 draws."""
    expected = {"batches": 100, "batch_size": batch_size, "draws": 100, "tokens_per_draw": tokens_per_draw}
    expected["tokens"] = 1_000 * activation_batch_size * FAMILIES[arch].num_tokens(Task(arch))
    expected |= {"activation_batch_size": activation_batch_size, "conditions": None}
    assert Protocol.published(Task(arch, setting)).evaluation == Evaluation(**expected)


def test_equal_numbers_have_one_hash():
    whole, real = (Training(steps=1, learning_rate=n, clipnorm=n, weight_decay=n) for n in (1, 1.0))
    hashes = {science_hash(Protocol(training, Evaluation()).to_dict()) for training in (whole, real)}
    assert len(hashes) == 1


def test_a_smaller_evaluation():
    smaller = Evaluation().smaller(10)
    sizes = (smaller.batches, smaller.tokens, smaller.draws, smaller.tokens_per_draw)
    assert sizes == (10, 100_000, 10, 2_560)
    assert smaller.conditions == (IID,)
    assert smaller.batch_size == Evaluation().batch_size
    few = Evaluation(batches=1, tokens=100, draws=2, tokens_per_draw=80)
    assert few.smaller(10, few.conditions) == few  # never more
    assert Evaluation().smaller(10, None).conditions is None


def test_replace():
    protocol = Protocol(Training(steps=10), Evaluation())
    changed = protocol.replace(steps=20, batch_size=8, tokens=5)
    assert changed == Protocol(Training(steps=20, batch_size=8), Evaluation(tokens=5))
    assert protocol.replace() == protocol
    with pytest.raises(ValueError, match="protocol field='step' is not known; expected one of steps, lea"):
        protocol.replace(step=5)


@pytest.mark.parametrize(
    ("steps", "evaluations", "expected"),
    [
        (25_000, 20, (100, 5, 10)),
        (500_000, 100, (100, 1, 10)),
        (3_000, 12, (120, 10, 12)),
        (60_000, 40, (120, 3, 12)),
        (12, 10, (6, 1, 1)),  # too few steps
        (10_007, 10, (1, 1, 1)),  # a prime
    ],
)
def test_ten_evaluations_inside_the_last_tenth(steps, evaluations, expected):
    assert epochs_of(Training(steps=steps, evaluations=evaluations, tail=10)) == expected


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"steps": 1018, "evaluations": 10}, "1,018 training steps: 2 of 10 evaluations will be made"),
        ({"steps": 10_007, "evaluations": 20}, "a multiple of 20 steps, such as 10,000"),
        ({"steps": 1250, "evaluations": 20, "tail": 10}, "1,250 .*: .* 1 of 10 evaluations.* as 1,200"),
        ({"steps": 1510, "evaluations": 10, "tail": 10}, "a multiple of 100 steps, such as 1,500"),
    ],
)
def test_few_evaluations_are_announced_once(training, message):
    warn_of_few_evaluations.cache_clear()
    for expected in (pytest.warns(match=message), nullcontext()):
        with expected:
            warn_of_few_evaluations(**{"tail": 0, **training})


@pytest.mark.parametrize(("steps", "evaluations"), [(1000, 20), (12, 10), (2500, 40), (5, 20), (7, 2)])
@pytest.mark.parametrize("tail", [0, 10])
def test_enough_evaluations_are_not_announced(steps, evaluations, tail):
    warn_of_few_evaluations(steps, evaluations, tail)


def test_what_says_nothing_of_the_tail_is_described_as_before():
    training = Training(steps=10)
    assert "tail" not in Protocol(training, Evaluation()).to_dict()["training"]
    assert Protocol(training, Evaluation()).replace(tail=3).to_dict()["training"]["tail"] == 3


def test_the_tail_is_the_last_ten_evaluations_or_half_of_few():
    assert [tail_length(n) for n in (1, 2, 3, 10, 20, 100)] == [1, 1, 1, 5, 10, 10]
