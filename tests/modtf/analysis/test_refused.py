"""All refusals of the analysis in one table: what is wrong with which argument."""

import pandas as pd
import pytest
from simulated_results import results_of

from modtf.analysis import Study, against, compare_pairs, match_members, results_table, summarise, votes
from modtf.results import with_categories

FRAME = results_of(
    settings=["regression", "classification"],
    rules=[2, 8],
    data_seeds=range(2),
    seeds=[0],
    checkpoints=["last", "best"],
)
LAST = FRAME[FRAME["checkpoint"] == "last"]
ALIGNMENT = LAST[LAST["measure"] == "alignment"]
STUDY = Study(FRAME, checkpoint="last")
PERFORMANCE = STUDY.performance
PAIR = ("modular", "monolithic")
AGAIN = ALIGNMENT.assign(folder="another")
BY_SETTING = ["variant", "setting"]

REFUSED = {
    "no column 'depth'; it has": lambda: summarise(FRAME, by=["depth"]),
    "by holds 'value'": lambda: summarise(FRAME, by=["value"]),
    "'folder' holds no numbers": lambda: summarise(FRAME, value="folder"),
    "'own' in by has no value in 1 of": lambda: summarise(
        LAST.assign(own=[None, *["a"] * (len(LAST) - 1)]),
        ["own"],  # pandas would drop it, and nothing count it
    ),
    "different values of 'setting'": lambda: summarise(ALIGNMENT, by=["variant", "num_rules"]),
    "different values of 'num_rules'": lambda: summarise(ALIGNMENT, by=BY_SETTING),
    "different values of 'place'": lambda: summarise(
        pd.concat([ALIGNMENT.assign(place="encoder"), ALIGNMENT.assign(place="root")]),
        [*BY_SETTING, "num_rules"],
    ),
    "checkpoint='worst' is not known": lambda: Study(FRAME, checkpoint="worst"),
    "protocol='unknown' is not known": lambda: Study(FRAME, protocols=["unknown"]),
    r"not have the checkpoint 'tail', only last, best\. Choose --checkpoint=last": lambda: Study(FRAME),
    r"results holds \w+, task 0, seed 0 twice": lambda: Study(
        with_categories(pd.concat([FRAME.astype({"folder": str}), AGAIN], ignore_index=True)),
        checkpoint="last",
    ),
    "does not have the columns protocol;": lambda: Study(FRAME.drop(columns="protocol")),
    r"Only some models have the checkpoint 'best', .*=last": lambda: Study(
        FRAME[FRAME["variant"].ne("modular") | FRAME["checkpoint"].ne("best")], checkpoint="best"
    ),
    "no column 'masure'": lambda: STUDY.summary(masure="alignment"),
    r"measure='alignments' is not known; .* Did you mean 'alignment'": lambda: STUDY.summary(
        measure="alignments"
    ),
    "model of 'modular' more than once": lambda: match_members(
        pd.concat([PERFORMANCE, PERFORMANCE.assign(model_options="modules=4")]), *PAIR
    ),
    "no column 'absent'; they have": lambda: compare_pairs(
        PERFORMANCE, [PAIR], by=["absent", "distribution"]
    ),
    "pairs holds 'modular'; expected pairs of variants": lambda: compare_pairs(PERFORMANCE, PAIR),  # type: ignore[arg-type]
    "hold a model more than once": lambda: votes(pd.concat([PERFORMANCE] * 2), PAIR),
    "baseline='mine' is not known; expected one of mono": lambda: against(STUDY.results, "mine"),
    "column=.depth. is not known; expected one of arch": lambda: STUDY.part(depth=[1]),
    "variant='modulr' is not known; .* Did you mean 'modular'": lambda: STUDY.part(variant=["modulr"]),
    "variant='modular' is not valid; expected a list": lambda: STUDY.part(variant="modular"),
    "setting='' is not known": lambda: STUDY.part("mlp"),
    "variant='mine' is not known": lambda: compare_pairs(PERFORMANCE, [("modular", "mine")]),
    "one setting, received \\w+, \\w+": lambda: results_table(STUDY.results),
} | {
    f"level={level} is not valid; expected a number between 0 and 1": lambda level=level: compare_pairs(
        PERFORMANCE, [PAIR], level=level
    )
    for level in (95, 0.0, 1.0, True)
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_wrong_is_named(words):
    with pytest.raises(ValueError, match=words):
        REFUSED[words]()
