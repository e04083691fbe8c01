"""The sizes of the libraries of VQA-MNIST, as published."""

import pytest

from modtf.experiments.questions.library import Library

#: library -> the released parameters at width 64, less one dead scalar: attribute, comparison, spatial
PUBLISHED = {
    "all_all_all": (793_602, 793_282, 793_858),
    "all_group_group": (2_611_080, 5_034_064, 3_217_162),
    "group_all_all": (1_352_898, 2_098_306, 1_539_586),
    "group_group_group": (3_170_376, 6_339_088, 3_962_890),
    "sub_sub_sub": (17_412_906, 13_266_976, 20_729_650),
    "all_sub_all": (2_471_426, 2_060_866, 2_799_874),
    "all_all_all_bn": (795_522, 795_202, 795_778),
    "all_sub_all_bn": (2_473_346, 2_062_786, 2_801_794),
    "sub_all_all": (4_522_242, 3_589_762, 5_268_226),
    "sub_subfind_sub": (16_638_762, 12_677_152, 19_808_050),
    "all_all_group": (2_475_528, 4_717_776, 3_036_426),
    "all_all_sub": (12_006_442, 9_202_912, 14_249_266),
    "all_mixedone_all": (None, 2_107_074, None),
    "sub_mixedone_all": (None, 4_903_554, None),
}
ASKED = ("attribute", "comparison", "spatial")
NAMED = [(q, n, v) for n, row in PUBLISHED.items() for q, v in zip(ASKED, row, strict=True) if v]


@pytest.mark.parametrize(("question", "name", "expected"), NAMED)
def test_published_parameters(question, name, expected):
    """All 38. What is called alone is no more; roots' Finds by groups are three more than the code's one."""
    built = Library.of(name, question)
    assert built.num_parameters(64, called=False) == expected
    assert built.num_parameters(64) <= expected
    assert len(NAMED) == 38
    if question == "attribute":
        assert Library.of(name, "multiple").num_parameters(64, called=False) == expected
    if "mixedone" in name:
        by_group = Library.of(name.replace("mixedone", "mixed"), question)
        assert by_group.num_parameters(64, called=False) == expected + 3 * 45_184
