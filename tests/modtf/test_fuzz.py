"""Give arguments of every public function meaningless values: it works, or one line names the argument."""

import contextlib
import inspect
from typing import Any

import pytest
from fuzz_cases import CASES, OPTION, REGISTRIES, TASK, Case
from fuzzing import EXAMPLES, WRONG, BeginsError, anything, begin, few, survives
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from registering import forgotten
from simulated_results import simulate

import modtf


@pytest.fixture(autouse=True, scope="module")
def in_a_folder(tmp_path_factory):
    """Work in a folder that holds a small study, where long work raises `BeginsError`."""
    folder = tmp_path_factory.mktemp("fuzz")
    small = {"rules": [2], "data_seeds": [0], "variants": ["modular", "gt_modular"], "num_evaluations": 1}
    simulate(folder / "study", settings=["regression"], **small)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setattr("keras.Model.fit", begin)
        patched.setattr("modtf.evaluation.evaluator.Evaluator.run", begin)
        patched.setattr("modtf.routing.report.write.draw_layers", begin)
        yield folder


def attempt(case: Case, **values: Any) -> None:
    """Call a function; it must work, begin its work, or refuse one of these arguments by its name."""
    words = [word.format(value) for word in case.words for value in map(repr, values.values())]
    with forgotten(*REGISTRIES), contextlib.suppress(BeginsError):
        result = survives(lambda: case.call(**{**case.valid(), **values}), *values, *words)
        assert result is None or case.holds(result)


@pytest.mark.parametrize("name", CASES)
def test_one_wrong_argument(name, in_a_folder):
    case = CASES[name]
    for argument in case.arguments:
        for value in WRONG:
            attempt(case, **{argument: value})
    finished = {path.relative_to(in_a_folder).parts[0] for path in in_a_folder.rglob("results.csv")}
    assert finished == {"study"}


numbers = st.floats(width=32) | st.integers(-1, 3)
matrices = arrays.arrays(float, st.lists(st.integers(0, 4), max_size=4).map(tuple), elements=numbers)


@settings(few, max_examples=50 * EXAMPLES)
@given(data=st.data())
def test_arguments_at_random(data):
    case = CASES[data.draw(st.sampled_from(list(CASES)))]
    names = data.draw(st.lists(st.sampled_from(case.arguments), min_size=1, max_size=2, unique=True))
    reads_arrays = {"A", "activations", "labels", "experts", "sums", "matrix", "usage"} & set(case.arguments)
    values = anything | st.sampled_from([OPTION, TASK]) | (matrices if reads_arrays else st.nothing())
    attempt(case, **{name: data.draw(values) for name in names})


def test_every_public_name_is_tried():
    source = inspect.getsource(modtf)
    public = {line.split(" as ")[1] for line in source.splitlines() if line.startswith("    from modtf")}
    elsewhere = {
        "collect",
        "record",
        "expert_similarity",
        "convert",
        "write_routing",
    }  # of PyTorch, or of whole models
    assert public - elsewhere <= set(CASES)
