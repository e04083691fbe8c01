"""Write the findings of docs/findings.md from docs/study: `python docs/scripts/draw_findings.py`."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from draw_cross import COSINE, RULES, TENTH, WRONG, cross
from draw_judged import read as read_routers
from draw_open_questions import read as read_open_questions
from draw_prices import agreements
from draw_prices import read as read_factors
from learning_curves import examples_of
from open_questions_tables import losses, models, num_models

import modtf
from modtf.analysis import IN, OUT, kind_label
from modtf.analysis.claims import mean_evidence
from modtf.analysis.tracking import BY_RULES
from modtf.experiments.modarch.given import WAYS, Dose, times, with_doses
from modtf.pages.text import with_interval

DOCS = Path(__file__).parents[1]
NUM_RULES = 8
LEARNED = ("modular", "modular_op")
MLP, RNN = kind_label("mlp", "regression"), kind_label("rnn", "regression")
CLASSES = kind_label("mlp", "classification")
PERFECT = "clamped (matrix=spread, amount=0.0, hard=False)"  # the oracle, in the routers' study of the RNN
DENSE = "balanced (k=8, balance=none)"  # `modular` there
HALF: Dose = ("spread", 0.5, False)
SHARED: Dose = ("block", 2, False)


class Studies(NamedTuple):
    """The studies that the findings come from."""

    first: modtf.Study
    first_cosine: modtf.Study
    misrouting: modtf.Study
    factors: modtf.Study
    cosine: modtf.Study
    open_questions: modtf.Study
    routers_cosine: modtf.Study


def read() -> Studies:
    """Read the archives."""
    names = ("first", "first_cosine", "misrouting", "misrouting_cosine")
    first, slow, misrouting, cosine = (modtf.Study.read(DOCS / "study" / f"{name}.zip") for name in names)
    return Studies(first, slow, misrouting, read_factors(), cosine, read_open_questions(), read_routers())


def routing_by_the_rule(studies: Studies) -> str:
    """Return how much the oracle saves compared with learned routing."""
    parts = _by_kind(studies.first)
    ratios = {kind: _against(parts[kind].performance, "gt_modular", "modular") for kind in (MLP, RNN)}
    models = [_models(parts[kind], "gt_modular", "modular") for kind in (MLP, RNN)]
    cosine, recurrent = _under_cosine(studies)
    slow = (
        _against(cosine.performance, "gt_modular", "modular"),
        _against(recurrent.performance, PERFECT, DENSE),
    )
    trained = _models(cosine, "gt_modular", "modular"), _models(recurrent, PERFECT, DENSE)
    at_last = _against(cosine.at("last").performance, "gt_modular", "modular")
    return f"""\
## 1. Routing by the rule helps at R = {NUM_RULES}

All networks here see which rule applies. The oracle, `gt_modular`, always uses the rule's own module; `modular` learns its routing.
In the MLP, under a cosine schedule, the oracle has {_ci(slow[0], " times the loss of `modular`")}. In the RNN it has
{_ci(slow[1], " times the loss")}. Each has its own starting rate; there are {trained[0]} in the MLP and {trained[1]} in the RNN.
At a constant 3e-4 in the MLP it has {_ci(ratios[MLP], " times the loss")}, from {models[0]}. At a constant
1e-3 in the RNN it has {_ci(ratios[RNN], " times the loss")}, from {models[1]}. Setting: {NUM_RULES} rules, regression, in distribution.

*Caveat*: one width. Losses are means over the last tenth of training. At the last weights the first ratio is {_ci(at_last)}.
Each constant rate is the same for both variants, and there the RNN is far from trained. Evidence: [a small study](study.md), [routers](routers_results.md).
"""


def networks_seldom_find_the_rules(studies: Studies) -> str:
    """Return the alignment of learned routing, compared with random routing."""
    parts = _by_kind(studies.first)
    found = {
        (kind, variant): _mean(parts[kind], variant, "alignment")
        for kind in (MLP, RNN)
        for variant in LEARNED
    }
    models = [_models(parts[kind], *LEARNED) for kind in (MLP, RNN)]
    cosine, recurrent = _under_cosine(studies)
    trained = _models(cosine, *LEARNED), _models(recurrent, DENSE, "modular_op")
    slow = [_ci(_mean(cosine, variant, "alignment")) for variant in LEARNED]
    later = [_ci(_mean(recurrent, variant, "alignment")) for variant in (DENSE, "modular_op")]
    return f"""\
## 2. MLPs do not find the rules at R = {NUM_RULES}; the RNN comes near

Alignment is a distance from the rules, so lower is better. It is 0 for one module per rule, and {1 - 1 / NUM_RULES:.3f} for random routing.
The router of `modular` sees the rule and the inputs, that of `modular_op` the rule alone.

| learning rate | `modular` | `modular_op` | from |
|---|---|---|---|
| MLP, cosine | {slow[0]} | {slow[1]} | {trained[0]} |
| RNN, cosine | {later[0]} | {later[1]} | {trained[1]} |
| MLP, constant 3e-4 | {_ci(found[MLP, "modular"])} | {_ci(found[MLP, "modular_op"])} | {models[0]} |
| RNN, constant 1e-3 | {_ci(found[RNN, "modular"])} | {_ci(found[RNN, "modular_op"])} | {models[1]} |

![Activation matrices of three variants](images/activation.png)

*Caveat*: small networks with {NUM_RULES} rules and {NUM_RULES} modules. With 2 rules MLPs mostly find them under a cosine schedule. Evidence: [a small study](study.md#under-a-cosine-schedule).
"""


def sampling_costs_weighting_forgives(studies: Studies) -> str:
    """Return the cost of half of the weight, and of a tenth of the tokens, on wrong modules."""
    constant, cosine = (_by_kind(study)[MLP] for study in (studies.misrouting, studies.cosine))
    half, tenth = (_price(constant, *which) for which in (HALF, TENTH))
    slow_half, slow_tenth = (_price(cosine, *which) for which in (HALF, TENTH))
    last_half, last_tenth = (_price(cosine.at("last"), *which) for which in (HALF, TENTH))
    return f"""\
## 3. A mixture forgives far more than a wrong choice

With half of every token's weight on wrong modules, an MLP has {_ci(slow_half, " times the loss of perfect routing")}.
With a tenth of its tokens sent to a wrong module, it has {_ci(slow_tenth, " times perfect routing's loss")}.
Routing was fixed, not learned, and the same in training and evaluation. Setting: regression, in distribution, a cosine schedule, each routing at its own
starting rate, five tasks, means over the last tenth of training.

*Caveat*: the multiples depend on the checkpoint and on the learning rate. At the last weights they are {_ci(last_half)} and {_ci(last_tenth)}.
At a constant 3e-4, where perfect routing's loss is far larger, they are {_ci(half)} and {_ci(tenth)}, over ten tasks.
Modules trained with perfect routing forgive much less ([the cost of misrouting](misrouting.md)).
"""


def training_against_asking(studies: Studies) -> str:
    """Return the cross of trained and asked routing."""
    crosses = [cross(studies.cosine, COSINE), cross(studies.misrouting)]
    by_schedule = [table.set_index(["kind", "distribution", "trained", "asked"]) for table in crosses]

    def ratio(number: int, trained: str, asked: str, unit: str) -> str:
        row = by_schedule[number].loc[(MLP, IN, trained, asked)]
        form = ",.0f" if row.low > 100 else ".1f"
        return _ci(with_interval(row["mean"], row.low, row.high, form), unit)

    return f"""\
## 4. Misrouting costs more in evaluation than in training

In the MLP a tenth of the tokens goes to wrong modules. If only training is misrouted, modules have
{ratio(0, WRONG, RULES, " times the loss of perfect routing")}. If only evaluation is misrouted, they have
{ratio(0, RULES, WRONG, " times the loss of perfect routing")}. Setting: regression, in distribution, a cosine schedule, each routing at its own
starting rate, five tasks. At a constant rate of 3e-4 the multiples are
{ratio(1, WRONG, RULES, "")} and {ratio(1, RULES, WRONG, "")}, over ten tasks.

![Loss of modules trained and evaluated with perfect routing or with a tenth of the tokens misrouted](images/misrouting_cross.png)

*Caveat*: only the last weights were evaluated, with one seed per task. Under cosine perfect routing's loss is almost zero, so multiples of it are large.
Evidence: [the cost of misrouting](misrouting.md).
"""


def alignment_and_price(studies: Studies) -> str:
    """Return two matrices of equal alignment, and how well alignment ranks the final matrices of routers."""
    parts = [_by_kind(study)[MLP] for study in (studies.cosine, studies.misrouting)]
    within = [_price(parts[0], *which) for which in (HALF, SHARED)]
    slow, constant = ([_price(part, *which, where=OUT) for which in (HALF, SHARED)] for part in parts)
    rows = agreements(studies.factors)
    weighted, sampled = (
        sorted((cells[0].split()[0] for _, runs, *cells in rows if runs.startswith(way)), key=float)
        for way in WAYS.values()
    )
    return f"""\
## 5. Equal alignment can hide very different costs

Two fixed routings both have an alignment of 0.5. In the first (`spread` .5), each rule's own module has half of the weight, and the others share the rest.
In the second (`block` 2), two rules share two modules evenly. Out of distribution, under a cosine schedule, the first has
{_ci(slow[0], " times perfect routing's loss")}. The second has {_ci(slow[1], " times perfect routing's loss")}. Setting: MLP regression,
weighted, five tasks. At a constant rate of 3e-4 they have {_ci(constant[0])} and {_ci(constant[1])} times it (ten tasks).
In distribution no difference between them is shown. Under cosine they have {_ci(within[0])} and {_ci(within[1])} times it there.

Among the matrices that trained routers reach, a matrix farther from the rules tends to cost more if its modules are weighted. Spearman's correlation within a task
lies between {weighted[0]} and {weighted[-1]} in distribution ({len(weighted)} task types; constant rates). If they are sampled, it lies between {sampled[0]} and {sampled[-1]}.

*Caveat*: the first two matrices were made by hand. Evidence: [the cost of misrouting](misrouting.md).
"""


def balance_is_not_specialisation(studies: Studies) -> str:
    """Return the load and the alignment of random routing, compared with a collapsing router."""
    slow, constant = (_load_and_alignment(study) for study in (studies.routers_cosine, studies.factors))
    return f"""\
## 6. Balance is not specialisation

In the MLP it is not shown that routers with more even load align better with the rules. In regression the rank correlation is {slow[MLP]},
in classification {slow[CLASSES]}. In the RNN it is {slow[RNN]}. A positive value means: the more even, the better aligned.
Setting: a cosine schedule, each router at its own starting rate, five tasks. At constant rates the three are {constant[MLP]}, {constant[CLASSES]}
and {constant[RNN]}. Intervals are over routers and tasks. Random routing is perfectly balanced and carries no information about the rule.

*Caveat*: ten routers in the MLP, six in the RNN. Evidence: [which measures track specialisation](measures.md).
"""


def routing_by_the_rule_saves_data(studies: Studies) -> str:
    """Return how many examples the oracle needs for the loss that others reach with many."""
    rows = models(studies.open_questions.at("best"), "num_train")
    found = losses(rows[rows["arch"] == "mlp"])
    _, matched = examples_of(found)
    most = matched["num_train"].max()
    needed = matched[matched["num_train"] == most].set_index("variant")["text"]
    return f"""\
## 7. Routing by the rule saves data

The oracle needs {_ci(needed["modular"], " examples")} for the loss that `modular` reaches with {most:,.0f} examples. For the loss of
`monolithic` with as many it needs {_ci(needed["monolithic"], " examples")}. Setting: MLP, {NUM_RULES} rules, regression, in distribution,
{num_models(found)}, cosine schedule.

*Caveat*: one width, and the same number of steps for every number of examples. The checkpoint is the one with the lowest loss on fresh
validation examples. Evidence: [answers to open questions](open_questions.md#finite-data).
"""


FINDINGS: tuple[Callable[[Studies], str], ...] = (
    routing_by_the_rule,
    networks_seldom_find_the_rules,
    sampling_costs_weighting_forgives,
    training_against_asking,
    alignment_and_price,
    balance_is_not_specialisation,
    routing_by_the_rule_saves_data,
)


def texts(studies: Studies) -> dict[str, list[str]]:
    """Return the findings as the page has them."""
    return {"findings.md": [finding(studies) for finding in FINDINGS]}


def _by_kind(study: modtf.Study) -> dict[str, modtf.Study]:
    return {kind_label(*part.kinds[0][:2]): part for part in study.by_kind if part.kinds[0][0] != "mha"}


def _under_cosine(studies: Studies) -> tuple[modtf.Study, modtf.Study]:
    """Return the MLP's variants, and all rows of the RNN, in regression."""
    return _by_kind(studies.first_cosine)[MLP], _by_kind(studies.routers_cosine)[RNN]


def _against(performance: pd.DataFrame, variant: str, other: str) -> str:
    rows = performance[(performance["distribution"] == IN) & (performance["num_rules"] == NUM_RULES)]
    return times(rows[rows["variant"] == variant], rows[rows["variant"] == other])


def _price(part: modtf.Study, matrix: str, amount: float, sampled: bool, where: str = IN) -> str:
    rows = with_doses(part)
    rows = rows[rows["distribution"] == where]
    same = (rows["matrix"] == matrix) & (rows["amount"] == amount) & (rows["drawn"] == sampled)
    perfect = (rows["matrix"] == "spread") & (rows["amount"] == 0)
    return times(rows[same], rows[perfect])


def _mean(part: modtf.Study, variant: str, measure: str) -> str:
    rows = part.results
    same = (rows["variant"] == variant) & (rows["measure"] == measure) & (rows["num_rules"] == NUM_RULES)
    found = mean_evidence(rows[same], "value", "", level=part.level)
    return with_interval(found.value, *found.interval)


def _ci(words: str, unit: str = "") -> str:
    """Return "0.66 times the loss (95% CI 0.58 to 0.76)" for "0.66 (0.58 to 0.76)"."""
    value, interval = words.split(" ", 1)
    return f"{value}{unit} (95% CI {interval[1:]}"


def _load_and_alignment(study: modtf.Study) -> dict[str, str]:
    """Return the rank correlation of even load with alignment, by task type."""
    table = study.judged_measures
    same = (table["measure"] == "load_variation") & (table["over"] == BY_RULES)
    rows = table[same].set_index("kind").loc[[MLP, CLASSES, RNN]].itertuples()
    return {row.Index: _ci(with_interval(row.correlation, row.low, row.high, "+.2f")) for row in rows}


def _models(part: modtf.Study, *variants: str) -> str:
    rows = part.performance
    return num_models(rows[(rows["num_rules"] == NUM_RULES) & rows["variant"].isin(variants)])


if __name__ == "__main__":
    print("\n".join(texts(read())["findings.md"]))
