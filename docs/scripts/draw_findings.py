"""Write the findings of docs/findings.md, and draw their pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from draw_cross import RULES, WRONG, best_constant, cross
from draw_language_parts import losses as language_losses
from draw_open_questions import losses, models
from draw_orders import models as language_models
from draw_seeds import agreement
from learning_curves import examples_of
from matplotlib.figure import Figure
from sources import ENDS, IMAGES, archive, forest, label, ratio_of, save

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.claims import mean_evidence
from modtf.analysis.tracking import BY_RULES
from modtf.experiments.modarch.fixed_routing import Routing, fixed_rows, select
from modtf.pages.text import markdown_table, with_interval

NUM_RULES = 8
MLP, RNN = kind_label("mlp", "regression"), kind_label("rnn", "regression")
CLASSES, RNN_CLASSES = kind_label("mlp", "classification"), kind_label("rnn", "classification")
PERFECT = "clamped (matrix=spread, amount=0.0, hard=False)"  # the oracle, in the routers' study of the RNN
DENSE = "balanced (k=8, balance=none)"  # `modular` there
LEAST_LEARNED = ("balanced (k=1, balance=none", "balanced (k=1, balance=bias")  # in the RNN
RIGHT: Routing = ("spread", 0.0, False)
HALF: Routing = ("spread", 0.5, False)
TENTH: Routing = ("spread", 0.1, True)
SHARED: Routing = ("block", 2, False)
MEMBER = ["data_seed", "seed"]
Ends = tuple[float, float, float]


class Studies(NamedTuple):
    """The studies that the findings come from, under a cosine schedule."""

    variants: modtf.Study
    misrouting: modtf.Study
    routers: modtf.Study
    open_questions: modtf.Study
    languages: modtf.Study


def read() -> Studies:
    """Read the archives."""
    routers = archive("factors_cosine", "recurrent_cosine")
    others = archive("open_questions"), archive("languages")
    return Studies(archive("first_cosine"), archive("misrouting_cosine"), routers, *others)


def routing_by_the_rule(studies: Studies) -> str:
    """Return how much perfect routing saves compared with learned routing."""
    oracle = oracle_over_modular(studies)
    rows = _by_kind(studies.variants)[MLP].performance
    rows = rows[(rows["distribution"] == IN) & (rows["num_rules"] == NUM_RULES)]
    loss, networks = (
        part.groupby("variant", observed=True)["value"].mean() for part in (rows, _networks(studies))
    )
    return f"""\
## 1. Perfect routing helps where rules are linear

In MLP regression the oracle has {_ci(oracle["MLP"], " times the loss")} of `modular`: {_loss(loss["gt_modular"])} against {_loss(loss["modular"])}.
[Limit](open_questions.md): where rules are small networks, the oracle has {_ci(oracle["MLP, rules are networks"], " times the loss")}: {_loss(networks["gt_modular"])} against {_loss(networks["modular"])}.

![The oracle's loss over that of modular](images/findings_1.png)
"""


def oracle_over_modular(studies: Studies) -> dict[str, Ends]:
    """Return the oracle's loss as a multiple of that of `modular`, by network and rules."""
    variants = _by_kind(studies.variants)[MLP].performance
    recurrent = _by_kind(studies.routers)[RNN].performance
    return {
        "MLP": _against(variants, "gt_modular", "modular"),
        "RNN": _against(recurrent, PERFECT, DENSE),
        "MLP, rules are networks": _against(_networks(studies), "gt_modular", "modular"),
    }


def _networks(studies: Studies) -> pd.DataFrame:
    """Return the losses where rules are small networks."""
    rows = models(studies.open_questions)
    return losses(rows[(rows["form"] == "network") & rows["num_train"].isna()]).assign(distribution=IN)


def networks_seldom_find_the_rules(studies: Studies) -> str:
    """Return the alignment of learned routing."""
    every = alignments(studies)
    found = {kind: values["modular"] for kind, values in every.items()}
    return f"""\
## 2. Learned routing seldom finds eight rules

In MLP regression `modular` ends at an alignment of {_ci(found[MLP])}; random routing has {1 - 1 / NUM_RULES:.3f}.
[Limit](study.md): the RNN reaches {_ci(found[RNN])} in regression. In classification it stays at {_ci(found[RNN_CLASSES])}; if the router sees the rule alone, it reaches {_ci(every[RNN_CLASSES]["modular_op"])}.

![Alignment of learned routing](images/findings_2.png)
"""


def alignments(studies: Studies) -> dict[str, dict[str, Ends]]:
    """Return the alignment of learned routing by task type and variant."""
    variants, routers = _by_kind(studies.variants), _by_kind(studies.routers)
    names = {"modular": "modular", "modular_op": "modular_op"}
    parts = {MLP: (variants, names), CLASSES: (variants, names), RNN_CLASSES: (variants, names)}
    parts[RNN] = (routers, {**names, "modular": DENSE})
    return {
        kind: {name: _measured(study[kind], variant, "alignment") for name, variant in shown.items()}
        for kind, (study, shown) in parts.items()
    }


def sampling_costs_weighting_forgives(studies: Studies) -> str:
    """Return the cost of half of the weight, and of a tenth of the tokens, on wrong modules."""
    found = shares(studies)
    return f"""\
## 3. A mixture forgives more than a wrong choice

With a tenth of the tokens on a wrong module, the loss of an MLP is {_percent(found["a tenth of tokens wrong"])} of the spread of the labels.
With half of every weight on wrong modules it is {_percent(found["half of the weight wrong"])}.
[Limit](misrouting.md): fixed routing.

![Loss under fixed routing](images/findings_3.png)
"""


def shares(studies: Studies) -> dict[str, Ends]:
    """Return the loss of fixed routings in % of the best constant answer's, in regression."""
    part = _by_kind(studies.misrouting)[MLP]
    routings = {"perfect": RIGHT, "half of the weight wrong": HALF, "a tenth of tokens wrong": TENTH}
    return {name: _share(part, which) for name, which in routings.items()}


def training_against_evaluation(studies: Studies) -> str:
    """Return the cross of the routing in training and in evaluation."""
    table = cross(studies.misrouting, "misrouting_cosine").set_index(
        ["kind", "distribution", "trained", "asked"]
    )
    share = {
        ways: tuple(table.loc[(MLP, IN, *ways), ["share", "share_low", "share_high"]])
        for ways in ((RULES, WRONG), (WRONG, WRONG))
    }
    return f"""\
## 4. Modules can learn to live with misrouting

If a tenth of the tokens is misrouted in evaluation alone, the loss is {_percent(share[RULES, WRONG])} of the spread.
[This follows from the rules](misrouting.md). If training was misrouted as well, it is {_percent(share[WRONG, WRONG])}.
"""


def alignment_and_price(studies: Studies) -> str:
    """Return two matrices of equal alignment, and whether better aligned routers perform better."""
    part = _by_kind(studies.misrouting)[MLP]
    half, shared = (_ends(_fixed(part, which, OUT), _fixed(part, RIGHT, OUT)) for which in (HALF, SHARED))
    perfect, loss = (_loss(_fixed(part, which, OUT)["value"].mean()) for which in (RIGHT, SHARED))
    inside = {which: _percent(_share(part, which)) for which in (SHARED, HALF)}
    mlp, few, *_ = _correlations(studies).values()
    return f"""\
## 5. Equal alignment can hide very different costs

Out of distribution, routing that shares two modules between two rules has {_ci(shared, " times perfect routing's loss")}: {loss} against {perfect}.
Spreading the wrong half over all modules, at the same alignment, has {_ci(half, " times it")}. In distribution it costs more: {inside[HALF]} against {inside[SHARED]}.
[Limit](misrouting.md): made by hand. Over learned routers, alignment and loss correlate by {_ci(mlp)}, without expert choice by {_ci(few)}.
"""


def balance_is_not_specialisation(studies: Studies) -> str:
    """Return the rank correlation of even load with alignment."""
    table = studies.routers.judged_measures
    same = (table["measure"] == "load_variation") & (table["over"] == BY_RULES)
    rows = table[same].set_index("kind")
    rnn, ends = rows.loc[RNN], ("correlation", "low", "high")
    few = "too few RNN routers have learned to judge this"
    recurrent = f"in the RNN it is {_ci(tuple(rnn[list(ends)]))}" if np.isfinite(rnn["low"]) else few
    return f"""\
## 6. There is no evidence that balance means specialisation

In MLP regression, even load and alignment have a rank correlation of {_ci(tuple(rows.loc[MLP, list(ends)]))} over ten routers.
[Limit](measures.md): {recurrent}.
"""


def routing_by_the_rule_saves_data(studies: Studies) -> str:
    """Return how many times as many examples `modular` needs."""
    rows = models(studies.open_questions.at("best"), "num_train")
    needed, _ = examples_of(losses(rows[rows["arch"] == "mlp"]))
    fewest = needed["num_train"].min()
    row = needed[(needed["num_train"] == fewest) & (needed["variant"] == "modular")].iloc[0]
    return f"""\
## 7. Perfect routing needs fewer examples

`modular` needs {_ci(tuple(row[ENDS]), " times as many examples")} for the loss that the oracle reaches with {fewest:.0f}.
[Limit](open_questions.md): one width.
"""


def experts_by_language(studies: Studies) -> str:
    """Return the oracle's loss in the language model over that of `modular`, which may be told the language."""
    rows = language_models(studies.languages)
    columns = pd.DataFrame({"data_seed": rows["data_seed"], "seed": 0, "value": rows["loss"]})
    oracle, modular = (columns[rows["router"] == name] for name in ("gt_modular", "dense"))
    loss = [_loss(part["value"].mean()) for part in (oracle, modular)]
    known = language_losses("languages_told", "TOLD")
    known = known[known["router"] == "dense"]
    return f"""\
## 8. An oracle's lead can be added information

In a language model the oracle has {_ci(_ends(oracle, modular), " times the excess loss")} of `modular`: {loss[0]} against {loss[1]} nats.
Told the language as an input, `modular` has {_loss(known["value"].mean())}.
[Limit](languages.md): synthetic languages.
"""


FINDINGS: tuple[Callable[[Studies], str], ...] = (
    routing_by_the_rule,
    networks_seldom_find_the_rules,
    sampling_costs_weighting_forgives,
    training_against_evaluation,
    alignment_and_price,
    balance_is_not_specialisation,
    routing_by_the_rule_saves_data,
    experts_by_language,
)


def texts(studies: Studies) -> dict[str, list[str]]:
    """Return the findings as the page has them, and a table for finding 5."""
    rows = [[name, with_interval(*ends)] for name, ends in _correlations(studies).items()]
    table = markdown_table(["learned routers", "Spearman's correlation of alignment with loss"], rows)
    return {"findings.md": [*(finding(studies) for finding in FINDINGS), table]}


def draw(studies: Studies, folder: Path = IMAGES) -> list[Path]:
    """Draw the first three findings, a picture each."""
    oracle, found = oracle_over_modular(studies), alignments(studies)
    first, second, third = (
        Figure(figsize=(5.6, 0.42 * size + 0.9), layout="constrained") for size in (3, 5, 3)
    )
    axes = [figure.subplots() for figure in (first, second, third)]
    forest(axes[0], oracle)
    axes[0].axvline(1, color="#999999", lw=0.8)
    axes[0].set(xscale="log", xlabel="loss of the oracle / loss of modular\n← better")
    axes[0].set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
    for name, shift, colour in (("modular", 0.12, "#0072B2"), ("modular_op", -0.12, "#D55E00")):
        forest(axes[1], {kind: values[name] for kind, values in found.items()}, name, shift, colour)
    axes[1].axvline(1 - 1 / NUM_RULES, color="#999999", lw=0.8)
    axes[1].set(xlim=(0, 1), xlabel="alignment (line: random routing)\n← better")
    axes[1].legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.08))
    forest(axes[2], shares(studies))
    axes[2].set(xscale="log", xlabel="loss, % of the spread of the labels\n← better")
    axes[2].set_xticks([0.003, 0.01, 0.03, 0.1, 0.3, 1], ["0.003", "0.01", "0.03", "0.1", "0.3", "1"])
    return [save(figure, folder / f"findings_{n}.png") for n, figure in enumerate((first, second, third), 1)]


def _by_kind(study: modtf.Study) -> dict[str, modtf.Study]:
    return {label(part): part for part in study.by_kind}


def _against(rows: pd.DataFrame, variant: str, other: str) -> Ends:
    rows = rows[(rows["distribution"] == IN) & (rows["num_rules"] == NUM_RULES)]
    return _ends(rows[rows["variant"] == variant], rows[rows["variant"] == other])


def _ends(rows: pd.DataFrame, others: pd.DataFrame) -> Ends:
    """Return the ratio of two tables on the same tasks, with its interval."""
    return tuple(map(float, ratio_of(rows, others)))


def _fixed(part: modtf.Study, which: Routing, where: str = IN) -> pd.DataFrame:
    rows = fixed_rows(part)
    return select(rows[rows["distribution"] == where], which)


def _measured(part: modtf.Study, variant: str, measure: str) -> Ends:
    rows = part.results
    same = (rows["variant"] == variant) & (rows["measure"] == measure) & (rows["num_rules"] == NUM_RULES)
    found = mean_evidence(rows[same], "value", "", level=part.level)
    return (found.value, *found.interval)


def _share(part: modtf.Study, which: Routing) -> Ends:
    """Return the loss of a fixed routing in % of the best constant answer's."""
    value, low, high = _ends(_fixed(part, which), best_constant(part))
    return 100 * value, 100 * low, 100 * high


def _correlations(studies: Studies) -> dict[str, Ends]:
    """Return the correlation of alignment with loss over learned routers, by network and routers."""
    mlp, rnn = (_by_kind(studies.routers)[kind] for kind in (MLP, RNN))
    return {
        MLP: _within_tasks(mlp),
        f"{MLP}, without expert choice": _within_tasks(mlp, "expert_choice"),
        RNN: _within_tasks(rnn),
        f"{RNN}, without the two that have learned least": _within_tasks(rnn, *LEAST_LEARNED),
    }


def _within_tasks(part: modtf.Study, *without: str) -> Ends:
    """Return Spearman's correlation of alignment with loss over learned routers, the mean over tasks.

    Routers whose names begin with one of `without` are left out.
    """
    results, rows = part.results, part.performance
    left_out = rows["variant"].astype(str).str.startswith(("clamped", *without))
    rows = rows[(rows["distribution"] == IN) & ~left_out]
    measured = results[results["measure"] == "alignment"][["variant", *MEMBER, "value"]]
    pairs = rows.merge(measured, on=["variant", *MEMBER], suffixes=("", "_alignment")).dropna(
        subset=["value_alignment"]
    )
    found = agreement(
        {task: (each["value_alignment"], each["value"]) for task, each in pairs.groupby("data_seed")}
    )
    return (found.value, *found.interval)


def _ci(ends: Ends, unit: str = "") -> str:
    """Return "0.66 times the loss (0.58 to 0.76)"."""
    small = abs(ends[0]) < 0.1
    value, low, high = (f"{end:.2f}" if abs(end) < 1 and not small else f"{end:.2g}" for end in ends)
    return f"{value}{unit} ({low} to {high})"


def _loss(value: float) -> str:
    """Return two significant digits without an exponent."""
    return np.format_float_positional(value, precision=2, fractional=False, trim="k", min_digits=2)


def _percent(ends: Ends) -> str:
    return "{:.2g}% ({:.2g} to {:.2g})".format(*ends)
