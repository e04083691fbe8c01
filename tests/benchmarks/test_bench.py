"""benchmarks/bench.py: the requests of its flags, and costs; tests/test_without_tensorflow.py runs it."""

import bench
import pytest
from flag_values import given

from modtf.tasks.families import with_free_rules
from modtf.tasks.protocol import KERNELS, PRECISIONS


def test_the_table_of_a_device():
    found = [
        bench.rows_of(one)[0] for one in bench.requests_of(given(bench, "--device=gpu", "--backend=jax"))
    ]
    assert len({bench.key_of(row) for row in found}) == len(found) == 84
    assert {row["variant"] for row in found} == {"modular"}
    names = {
        "arch": with_free_rules(),
        "precision": PRECISIONS,
        "kernels": KERNELS,
        "members": (1, 5, 25, 100),
    }
    for name, values in names.items():
        assert {row[name] for row in found} == set(values)
    assert {row["kernels"] for row in found[:40]} == {"accelerator"}


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--rules=two"], "positive integers"),
        (["--members=1,2"], "Give --device"),
        (["--set=training.steps=2"], "published protocol"),
        (["--device=cpu", "--data=auto"], "expected some of host, device"),
        (["--device=cpu", "--precision=half"], "expected some of float32"),
        (["--arch=mpl"], "mlp"),
    ],
)
def test_wrong_values(flags, error):
    with pytest.raises(ValueError, match=error):
        bench.requests_of(given(bench, *flags))


def test_costs_are_medians_and_ratios_of_a_round():
    samples = {"monolithic step": [1.0, 2.0, 3.0], "modular step": [2.0, 4.0, 9.0], "data": [0.4] * 3,
               "peak": [1.0] * 3, "compiled peak": [0.5] * 3, "modular alone": [1.0, 2.0, 4.5]}  # fmt: skip
    row = {"variant": "modular", "members": 2, "data": "memory", "flops": 100, "published_steps": 1000}
    core = bench.costs_of(row, samples, product_flops=50)
    assert (core["step_ms"], core["data_ms"], core["train_ms"]) == (2000.0, 200.0, 2200.0)  # of a member
    assert (core["to_monolithic"], core["to_alone"], core["peak_fraction"]) == (2.0, 1.0, 0.5)
    card = bench.costs_of({**row, "data": "device"}, samples, product_flops=50)
    assert (card["step_ms"], card["step_ms_range"]) == (4000.0, [2000.0, 9000.0])  # of all
    assert card["models_per_hour"] == pytest.approx(3600 * 2 / 4000)
