"""Libraries of modules: the module of each sub-task, at encoder, module and classifier."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from modtf.experiments.questions.question import CLASSIFIER, ENCODER, MODULE, PLACES, QUESTIONS, Question

BN, FIND, RESIDUAL, ROUTED = "bn", "find", "residual", "routed"
ROUTED_ENCODER = "routed_all_all"  # the default library
#: the degrees of a layer: one module for all sub-tasks, one per group, one per sub-task, or a router that
#: weights as many modules as there are groups. A sub-task's own intermediate module is a Residual, otherwise
#: a Find. "mixed" has Residuals for leaves and Finds for groups of roots, "mixedone" one Find for all roots
DEGREES: dict[str, tuple[str, ...]] = dict.fromkeys(PLACES, ("all", "group", "sub", ROUTED))
DEGREES[MODULE] = (*DEGREES[MODULE], "subfind", "mixed", "mixedone")
IMAGE = 3  # channels
HIDDEN, LAST, ANSWERS = 8, 16, 2  # of a classifier: layers, as multiples of the width, and answers
CONVOLUTIONS = 6


@dataclass(frozen=True)
class Bank:
    """Modules of one type."""

    kind: str  # "encoder", "find", "residual" or "classifier"
    module_of: dict[int, int]  # sub-task -> the number of its module
    routed: bool = False  # whether a router weights them; `module_of` then gives their number as groups

    @property
    def num_modules(self) -> int:
        return max(self.module_of.values()) + 1


@dataclass(frozen=True)
class Library:
    """The modules of every layer. Leaves and roots have separate banks if their modules differ in kind."""

    name: str
    question: Question
    degrees: tuple[str, ...]
    bn: bool

    @classmethod
    def of(cls, name: str, question: str | Question) -> "Library":
        """Read a name: ENCODER_MODULE_CLASSIFIER, with "_bn" for batch normalisation.

        Raise `ValueError` for any other name, or for one that does not fit the question, which is given or
        named.

        Example:
            >>> Library.of("group_all_all", "comparison").num_parameters(64)
            1352578
        """
        degrees, bn = name.removesuffix(f"_{BN}").split("_"), name.endswith(f"_{BN}")
        known = len(degrees) == len(PLACES) and all(
            degree in DEGREES[place] for degree, place in zip(degrees, PLACES, strict=True)
        )
        if not known:
            expected = "_".join(f"({'|'.join(DEGREES[place])})" for place in PLACES)
            raise ValueError(
                f"library={name!r} is not valid; expected {expected}, optionally followed by _bn."
            )
        asked = QUESTIONS[question] if isinstance(question, str) else question
        if degrees[1].startswith("mixed") and asked.name != "comparison":
            raise ValueError(
                f"library={name!r} needs question='comparison', received question={asked.name!r}. Choose "
                "another module than 'mixed'."
            )
        return cls(name, asked, tuple(degrees), bn)

    def banks(self, place: str, called: bool = True) -> tuple[Bank, ...]:
        """Return the modules of a layer. If not `called`, include the unused ones of the released trees."""
        asked, degree = self.question, self.degrees[PLACES.index(place)]
        sub_tasks = asked.sub_tasks_at(place if called else MODULE)
        kind = place if place != MODULE else RESIDUAL if degree == "sub" else FIND
        if degree.startswith("mixed"):
            leaves = [rule for rule in sub_tasks if rule < asked.num_leaves or not called]
            roots = [rule for rule in sub_tasks if rule >= asked.num_leaves]
            groups = self._numbered(roots, "all" if degree == "mixedone" else "group")
            return Bank(RESIDUAL, self._numbered(leaves, "sub")), Bank(FIND, groups)
        return (Bank(kind, self._numbered(sub_tasks, degree), degree == ROUTED),)

    def _numbered(self, rules: Sequence[int], degree: str) -> dict[int, int]:
        """Return rule -> module: one for all, one for each rule, or one for each group of rules."""
        group_of = self.question.group_of
        if degree == "all":
            return dict.fromkeys(rules, 0)
        if degree.startswith("sub"):
            return {rule: number for number, rule in enumerate(rules)}
        return {rule: group_of[rule] - group_of[rules[0]] for rule in rules}

    def num_parameters(self, width: int, called: bool = True) -> int:
        """Return the number of trainable parameters, without a router's. If not `called`, count all that the
        released code registers."""
        banks = [bank for place in PLACES for bank in self.banks(place, called)]
        finds = {rule for bank in banks if bank.kind == FIND for rule in bank.module_of}
        scales = len(finds) if called or not finds else len(self.question.sub_tasks)
        sizes = (bank.num_modules * module_parameters(bank.kind, width, self.bn) for bank in banks)
        return scales * width + sum(sizes)

    def macs(self, width: int) -> int:
        """Return the multiplications with weights for one example. All routed modules are computed."""
        asked, side = self.question, self.question.shape[-2]
        total = 0
        for place in PLACES:
            for number in asked.calls_at(place):
                bank = self.banks(place)[-1 if number == 2 else 0]
                images = 2 if number == 2 else 1  # the number of images that the call sees
                total += module_macs(bank.kind, width, side, images) * (
                    bank.num_modules if bank.routed else 1
                )
        return total


def encoder_layers(width: int) -> Iterator[tuple[int, int, int]]:
    """Yield (input channels, halvings of the side before it, number) of every convolution."""
    for number in range(CONVOLUTIONS):
        yield IMAGE if number == 0 else width, int(number >= 2) + int(number >= 4), number


def module_parameters(kind: str, width: int, bn: bool) -> int:
    """Return the trainable parameters of a module. Batch normalisation has two per channel in place of a
    bias."""
    e, bias = width, 2 if bn else 1
    conv = 9 * e * e + e
    if kind == ENCODER:
        return sum(9 * inner * e + bias * e for inner, _, _ in encoder_layers(e))
    if kind == CLASSIFIER:
        first = e * HIDDEN * e + bias * HIDDEN * e
        return first + HIDDEN * e * LAST * e + bias * LAST * e + LAST * e * ANSWERS + ANSWERS
    projection = 2 * e * e + e
    return projection + conv * (2 if kind == RESIDUAL else 1)


def module_macs(kind: str, width: int, side: int, images: int) -> int:
    """Return a module's multiplications with weights on one example, for `images` encodings of a side."""
    e, places = width, (side // 4) ** 2
    if kind == ENCODER:
        return sum(9 * inner * e * (side >> halved) ** 2 for inner, halved, _ in encoder_layers(e))
    if kind == CLASSIFIER:
        return places * e * HIDDEN * e + HIDDEN * e * LAST * e + LAST * e * ANSWERS
    return places * (images * e * e + 9 * e * e * (2 if kind == RESIDUAL else 1))
