"""The claims of docs/routing_claims.md: simulated routers score what chance gives, and docs/data says so."""

import sys
from functools import partial
from types import ModuleType

import numpy as np
import pytest
from processes import ROOT
from scipy import stats

sys.path.insert(0, str(ROOT / "examples"))

import routing_chance
import routing_claims
import routing_public

DATA = ROOT / "docs" / "data" / "routing_claims.csv"


def mean(draw: partial, draws: int = 40) -> float:
    random = np.random.default_rng(0)
    return float(np.mean([draw(random) for _ in range(draws)]))


def best_f1(share: float, length: int) -> float:
    """Return the best F1 score of an even router, from the binomial distribution."""
    active = np.arange(length + 1)
    segments = stats.binom.pmf(active, length, share)
    total = length * share
    return max(
        2 * (segments * active)[least:].sum() / (length * segments[least:].sum() + total) for least in active
    )


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (partial(routing_chance.repeats, experts=8, k=2, first=1, tokens=3_000), 1 / 8),
        (partial(routing_chance.repeats, experts=8, k=2, first=2, tokens=3_000), 1 - 15 / 28),
        (partial(routing_chance.kept, experts=32, k=4), 4 / 32),
        (partial(routing_chance.cached, experts=16, k=2, size=4, tokens=300), 4 / 16),
        (partial(routing_chance.guessed, labels=4, samples=80), 1 / 4),
        (partial(routing_chance.segment_f1, mean=1 / 8, deviation=1e-4), best_f1(1 / 8, 16)),
        (partial(routing_chance.rate_change, share=0.24, prompts=100), 0.0),
        (partial(routing_chance.largest, experts=8, size=8, prompts=50), 1.0),
        (partial(routing_chance.committee, experts=8, size=8, gini=0.5, domains=3, prompts=9, layers=1), 1.0),
    ],
    ids=lambda value: value.func.__name__ if isinstance(value, partial) else "",
)  # fmt: skip
def test_routers_score_what_chance_gives(draw: partial, expected: float) -> None:
    assert mean(draw) == pytest.approx(expected, abs=0.02 if expected != 0.0 else 0.03)


@pytest.mark.parametrize(
    ("value", "sign", "missing", "expected"),
    [
        (0.9, 1, "", "survives"),
        (0.5, 1, "", "partly survives"),
        (0.35, 1, "", "does not survive"),
        (0.1, -1, "", "survives"),
        (0.35, 0, "", "survives"),
        (0.5, 0, "", "does not survive"),
        (0.9, 1, "the loads", "cannot be told"),
    ],
)
def test_rule(value: float, sign: int, missing: str, expected: str) -> None:
    claim = routing_claims.Claim("2401.04088", "a share", value, lambda random: 0.3, sign, missing)
    assert routing_claims.verdict(claim, routing_claims.Chance(0.3, 0.2, 0.4)) == expected


@pytest.mark.parametrize(
    "names",
    [
        ["srp_qwen3", "srp_mixtral", "moe_beyond_accuracy", "signatures", "committee_mass", "safety"],
        pytest.param(list(routing_claims.CLAIMS), marks=pytest.mark.slow),
    ],
    ids=["cheap", "all"],
)
def test_data_have_the_numbers_of_the_script(names: list[str]) -> None:
    written = DATA.read_text("utf-8").splitlines()[1:]
    printed = routing_claims.table(names).to_csv(index=False, float_format="%.3f").splitlines()
    assert set(printed) <= set(written)
    assert len(written) == len(routing_claims.CLAIMS) + 1


def test_unknown_claims_are_refused(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, flags, message in (
        (routing_claims, ["--claim=nothing"], "--claim=nothing: expected names among mixtral_first"),
        (routing_public, [], "expected --jlens=FOLDER or --gemma=FOLDER"),
    ):
        refused(module, flags, message, capsys, monkeypatch)


def refused(module: ModuleType, flags: list[str], message: str, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["script", *flags])
    with pytest.raises(SystemExit):
        module.main()
    assert message in capsys.readouterr().err


def test_public_measures_know_what_a_router_knows() -> None:
    """Eight prompts of two domains: experts follow the domain, or nothing."""
    random = np.random.default_rng(0)
    labels, documents = np.arange(8) % 2, np.repeat(np.arange(8), 40)
    by_domain = np.stack([8 * labels[documents] + offset for offset in range(8)], axis=1)[np.newaxis]
    counts = np.stack([routing_public.one_hot(by_domain, 16)[:, documents == d].sum(1) for d in range(8)])
    found = routing_public.domains(counts, labels)
    assert found["accuracy of the nearest domain of a prompt"] == 1
    assert found["overlap of the experts that domains use"] == 0
    assert found["experts that one domain alone uses: second domain"] == 8
    weights = np.full(by_domain.shape, 1 / 8)
    arrays = {"experts": by_domain, "weights": weights, "num_experts": 256, "documents": documents}
    assert routing_public.locality(arrays)["segment_routing_best_performance_16"] == 1
    assert routing_public.locality(routing_public.shuffled(random, arrays))["first_choice_repeated"] < 0.65
    blind = arrays | {"experts": routing_chance.choose(random, len(documents), 256, 8)[np.newaxis]}
    near = routing_public.locality(blind)
    assert near["first_choice_repeated"] < 0.03
    assert near["segment_routing_best_performance_16"] == pytest.approx(best_f1(8 / 256, 16), abs=0.03)
