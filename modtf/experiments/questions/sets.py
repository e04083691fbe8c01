"""The families of questions, and the sets of libraries and networks that claims and figures compare."""

from modtf.analysis.labels import parse_options
from modtf.experiments.questions.digits import MAIN

#: name of a figure -> its libraries, as in the figures of the released code
SETS = {
    "main": MAIN,
    "encoder": ("all_all_all", "group_all_all", "sub_all_all", "routed", "all_mixed_all", "sub_mixed_all"),
    "module": ("all_all_all", "group_all_all", "all_sub_all", "all_all_all_bn", "all_sub_all_bn"),
    "sub": ("group_all_all", "sub_sub_sub", "sub_subfind_sub"),
    "classifier": ("all_all_all", "all_all_group", "all_all_sub", "group_all_all"),
}
DIGITS, SQOOP = "vqa_mnist", "sqoop"
TREES = ("all_all_all_bn", "all_sub_all_bn")
PLAIN = ("film", "mac")


def number(options: str, name: str, default: float) -> float:
    """Return the value of a number among options as results name them.

    Example:
        >>> number("question=attribute,rounds=5", "rounds", 2)
        5.0
    """
    return float(parse_options(options).get(name, default))
