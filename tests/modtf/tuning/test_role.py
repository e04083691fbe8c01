"""KerasTuner's variables: who is chief, who is worker, and what is missing."""

import pytest

from modtf.tuning.role import ID, IP, PORT, Role, role_here


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in (ID, IP, PORT):
        monkeypatch.delenv(name, raising=False)
    return lambda **values: [monkeypatch.setenv(name, value) for name, value in values.items()]


def test_who_tunes_alone(environment):
    assert role_here() == Role("tuner0")
    assert not role_here().is_chief
    assert not role_here().is_worker
    environment(**{ID: "mine"})
    assert role_here() == Role("mine")


@pytest.mark.parametrize(("name", "is_chief"), [("chief", True), ("chief0", True), ("worker-1", False)])
def test_a_chief_and_workers(environment, name, is_chief):
    environment(**{ID: name, IP: "127.0.0.1", PORT: "8000"})
    assert role_here() == Role(name, "127.0.0.1:8000")
    assert (role_here().is_chief, role_here().is_worker) == (is_chief, not is_chief)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({IP: "127.0.0.1"}, f"{ID} and {PORT} must be set, too"),
        ({PORT: "8000", ID: "one"}, f"{IP} must be set, too"),
        ({ID: "chief"}, f"makes this process a chief; set {IP} and {PORT}, too"),
        ({ID: "a/b"}, "is not valid; expected letters"),
        ({ID: "one", IP: "127.0.0.1", PORT: "http"}, "expected the number of a port"),
    ],
)
def test_what_does_not_fit_together(environment, values, words):
    environment(**values)
    with pytest.raises(ValueError, match=words):
        role_here()
